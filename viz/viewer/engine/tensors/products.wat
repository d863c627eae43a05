;; Products of one or four rows of numbers with a matrix, in WebAssembly with 128-bit SIMD.
;;
;; y[r, o] = bias[o] + scales[o] * sum over i of x[r, i] * matrix[o, i]
;;
;; x, y, scales and bias are float32, the matrix is int8 or float32, everything without gaps. `width` is the number
;; of columns, a multiple of 8, and `outputs` the number of rows of the matrix. All other parameters are addresses
;; in bytes. `tests/viz/engine/test_products.py` assembles this text and compares it with the bytes in
;; products_wasm.js.
(module
  (memory (import "engine" "memory") 1)

  (func (export "int8x1")
    (param $x i32) (param $matrix i32) (param $scales i32) (param $bias i32) (param $y i32)
    (param $width i32) (param $outputs i32)
    (local $i i32) (local $end i32) (local $codes v128) (local $a v128) (local $b v128)
    (loop $output
      (local.set $a (v128.const f32x4 0 0 0 0))
      (local.set $b (v128.const f32x4 0 0 0 0))
      (local.set $i (local.get $x))
      (local.set $end (i32.add (local.get $matrix) (local.get $width)))
      (loop $column
        (local.set $codes (v128.load8x8_s (local.get $matrix)))
        (local.set $a (f32x4.add (local.get $a) (f32x4.mul
          (v128.load (local.get $i))
          (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $codes))))))
        (local.set $b (f32x4.add (local.get $b) (f32x4.mul
          (v128.load offset=16 (local.get $i))
          (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $codes))))))
        (local.set $i (i32.add (local.get $i) (i32.const 32)))
        (local.set $matrix (i32.add (local.get $matrix) (i32.const 8)))
        (br_if $column (i32.lt_u (local.get $matrix) (local.get $end))))
      (f32.store (local.get $y) (f32.add (f32.load (local.get $bias))
        (f32.mul (f32.load (local.get $scales)) (call $sum (f32x4.add (local.get $a) (local.get $b))))))
      (local.set $y (i32.add (local.get $y) (i32.const 4)))
      (local.set $bias (i32.add (local.get $bias) (i32.const 4)))
      (local.set $scales (i32.add (local.get $scales) (i32.const 4)))
      (local.set $outputs (i32.sub (local.get $outputs) (i32.const 1)))
      (br_if $output (local.get $outputs))))

  (func (export "float32x1")
    (param $x i32) (param $matrix i32) (param $scales i32) (param $bias i32) (param $y i32)
    (param $width i32) (param $outputs i32)
    (local $i i32) (local $end i32) (local $a v128) (local $b v128)
    (loop $output
      (local.set $a (v128.const f32x4 0 0 0 0))
      (local.set $b (v128.const f32x4 0 0 0 0))
      (local.set $i (local.get $x))
      (local.set $end (i32.add (local.get $matrix) (i32.shl (local.get $width) (i32.const 2))))
      (loop $column
        (local.set $a (f32x4.add (local.get $a) (f32x4.mul
          (v128.load (local.get $i)) (v128.load (local.get $matrix)))))
        (local.set $b (f32x4.add (local.get $b) (f32x4.mul
          (v128.load offset=16 (local.get $i)) (v128.load offset=16 (local.get $matrix)))))
        (local.set $i (i32.add (local.get $i) (i32.const 32)))
        (local.set $matrix (i32.add (local.get $matrix) (i32.const 32)))
        (br_if $column (i32.lt_u (local.get $matrix) (local.get $end))))
      (f32.store (local.get $y) (f32.add (f32.load (local.get $bias))
        (f32.mul (f32.load (local.get $scales)) (call $sum (f32x4.add (local.get $a) (local.get $b))))))
      (local.set $y (i32.add (local.get $y) (i32.const 4)))
      (local.set $bias (i32.add (local.get $bias) (i32.const 4)))
      (local.set $scales (i32.add (local.get $scales) (i32.const 4)))
      (local.set $outputs (i32.sub (local.get $outputs) (i32.const 1)))
      (br_if $output (local.get $outputs))))

  (func (export "int8x4")
    (param $x i32) (param $matrix i32) (param $scales i32) (param $bias i32) (param $y i32)
    (param $width i32) (param $outputs i32)
    (local $x1 i32) (local $x2 i32) (local $x3 i32) (local $i i32) (local $column i32)
    (local $codes v128) (local $low v128) (local $high v128)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $stride i32)
    (local.set $stride (i32.shl (local.get $width) (i32.const 2)))
    (local.set $x1 (i32.add (local.get $x) (local.get $stride)))
    (local.set $x2 (i32.add (local.get $x1) (local.get $stride)))
    (local.set $x3 (i32.add (local.get $x2) (local.get $stride)))
    (local.set $stride (i32.shl (local.get $outputs) (i32.const 2)))
    (loop $output
      (local.set $a (v128.const f32x4 0 0 0 0))
      (local.set $b (v128.const f32x4 0 0 0 0))
      (local.set $c (v128.const f32x4 0 0 0 0))
      (local.set $d (v128.const f32x4 0 0 0 0))
      (local.set $i (i32.const 0))
      (local.set $column (local.get $width))
      (loop $columns
        (local.set $codes (v128.load8x8_s (local.get $matrix)))
        (local.set $low (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $codes))))
        (local.set $high (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $codes))))
        (local.set $a (f32x4.add (local.get $a) (f32x4.add
          (f32x4.mul (local.get $low) (v128.load (i32.add (local.get $x) (local.get $i))))
          (f32x4.mul (local.get $high) (v128.load offset=16 (i32.add (local.get $x) (local.get $i)))))))
        (local.set $b (f32x4.add (local.get $b) (f32x4.add
          (f32x4.mul (local.get $low) (v128.load (i32.add (local.get $x1) (local.get $i))))
          (f32x4.mul (local.get $high) (v128.load offset=16 (i32.add (local.get $x1) (local.get $i)))))))
        (local.set $c (f32x4.add (local.get $c) (f32x4.add
          (f32x4.mul (local.get $low) (v128.load (i32.add (local.get $x2) (local.get $i))))
          (f32x4.mul (local.get $high) (v128.load offset=16 (i32.add (local.get $x2) (local.get $i)))))))
        (local.set $d (f32x4.add (local.get $d) (f32x4.add
          (f32x4.mul (local.get $low) (v128.load (i32.add (local.get $x3) (local.get $i))))
          (f32x4.mul (local.get $high) (v128.load offset=16 (i32.add (local.get $x3) (local.get $i)))))))
        (local.set $i (i32.add (local.get $i) (i32.const 32)))
        (local.set $matrix (i32.add (local.get $matrix) (i32.const 8)))
        (br_if $columns (local.tee $column (i32.sub (local.get $column) (i32.const 8)))))
      (call $store (local.get $y) (local.get $stride) (local.get $scales) (local.get $bias)
        (local.get $a) (local.get $b) (local.get $c) (local.get $d))
      (local.set $y (i32.add (local.get $y) (i32.const 4)))
      (local.set $bias (i32.add (local.get $bias) (i32.const 4)))
      (local.set $scales (i32.add (local.get $scales) (i32.const 4)))
      (local.set $outputs (i32.sub (local.get $outputs) (i32.const 1)))
      (br_if $output (local.get $outputs))))

  (func (export "float32x4")
    (param $x i32) (param $matrix i32) (param $scales i32) (param $bias i32) (param $y i32)
    (param $width i32) (param $outputs i32)
    (local $x1 i32) (local $x2 i32) (local $x3 i32) (local $i i32)
    (local $low v128) (local $high v128)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $bytes i32) (local $stride i32)
    (local.set $bytes (i32.shl (local.get $width) (i32.const 2)))
    (local.set $x1 (i32.add (local.get $x) (local.get $bytes)))
    (local.set $x2 (i32.add (local.get $x1) (local.get $bytes)))
    (local.set $x3 (i32.add (local.get $x2) (local.get $bytes)))
    (local.set $stride (i32.shl (local.get $outputs) (i32.const 2)))
    (loop $output
      (local.set $a (v128.const f32x4 0 0 0 0))
      (local.set $b (v128.const f32x4 0 0 0 0))
      (local.set $c (v128.const f32x4 0 0 0 0))
      (local.set $d (v128.const f32x4 0 0 0 0))
      (local.set $i (i32.const 0))
      (loop $columns
        (local.set $low (v128.load (i32.add (local.get $matrix) (local.get $i))))
        (local.set $high (v128.load offset=16 (i32.add (local.get $matrix) (local.get $i))))
        (local.set $a (f32x4.add (local.get $a) (f32x4.add
          (f32x4.mul (local.get $low) (v128.load (i32.add (local.get $x) (local.get $i))))
          (f32x4.mul (local.get $high) (v128.load offset=16 (i32.add (local.get $x) (local.get $i)))))))
        (local.set $b (f32x4.add (local.get $b) (f32x4.add
          (f32x4.mul (local.get $low) (v128.load (i32.add (local.get $x1) (local.get $i))))
          (f32x4.mul (local.get $high) (v128.load offset=16 (i32.add (local.get $x1) (local.get $i)))))))
        (local.set $c (f32x4.add (local.get $c) (f32x4.add
          (f32x4.mul (local.get $low) (v128.load (i32.add (local.get $x2) (local.get $i))))
          (f32x4.mul (local.get $high) (v128.load offset=16 (i32.add (local.get $x2) (local.get $i)))))))
        (local.set $d (f32x4.add (local.get $d) (f32x4.add
          (f32x4.mul (local.get $low) (v128.load (i32.add (local.get $x3) (local.get $i))))
          (f32x4.mul (local.get $high) (v128.load offset=16 (i32.add (local.get $x3) (local.get $i)))))))
        (local.set $i (i32.add (local.get $i) (i32.const 32)))
        (br_if $columns (i32.lt_u (local.get $i) (local.get $bytes))))
      (call $store (local.get $y) (local.get $stride) (local.get $scales) (local.get $bias)
        (local.get $a) (local.get $b) (local.get $c) (local.get $d))
      (local.set $matrix (i32.add (local.get $matrix) (local.get $bytes)))
      (local.set $y (i32.add (local.get $y) (i32.const 4)))
      (local.set $bias (i32.add (local.get $bias) (i32.const 4)))
      (local.set $scales (i32.add (local.get $scales) (i32.const 4)))
      (local.set $outputs (i32.sub (local.get $outputs) (i32.const 1)))
      (br_if $output (local.get $outputs))))

  ;; Writes one output of four rows that lie `stride` bytes apart.
  (func $store
    (param $y i32) (param $stride i32) (param $scales i32) (param $bias i32)
    (param $a v128) (param $b v128) (param $c v128) (param $d v128)
    (local $scale f32) (local $start f32)
    (local.set $scale (f32.load (local.get $scales)))
    (local.set $start (f32.load (local.get $bias)))
    (f32.store (local.get $y)
      (f32.add (local.get $start) (f32.mul (local.get $scale) (call $sum (local.get $a)))))
    (local.set $y (i32.add (local.get $y) (local.get $stride)))
    (f32.store (local.get $y)
      (f32.add (local.get $start) (f32.mul (local.get $scale) (call $sum (local.get $b)))))
    (local.set $y (i32.add (local.get $y) (local.get $stride)))
    (f32.store (local.get $y)
      (f32.add (local.get $start) (f32.mul (local.get $scale) (call $sum (local.get $c)))))
    (local.set $y (i32.add (local.get $y) (local.get $stride)))
    (f32.store (local.get $y)
      (f32.add (local.get $start) (f32.mul (local.get $scale) (call $sum (local.get $d))))))

  (func $sum (param $v v128) (result f32)
    (f32.add
      (f32.add (f32x4.extract_lane 0 (local.get $v)) (f32x4.extract_lane 1 (local.get $v)))
      (f32.add (f32x4.extract_lane 2 (local.get $v)) (f32x4.extract_lane 3 (local.get $v))))))
