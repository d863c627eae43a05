;; Products of rows of numbers with a matrix, and sums of exponentials, in WebAssembly with 128-bit SIMD.
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

  ;; Rows of x, as many as a multiple of four, with all outputs. `scratch` has room for these rows and for two more: there
  ;; lie four rows of x, and two of the matrix, in turn by four columns, so that the innermost loop reads on and on. Where
  ;; one output is left, it is computed twice.
  (func (export "multiply")
    (param $x i32) (param $matrix i32) (param $scales i32) (param $bias i32) (param $y i32)
    (param $width i32) (param $outputs i32) (param $rows i32) (param $scratch i32) (param $isInt8 i32)
    (local $bytes i32) (local $stride i32) (local $step i32) (local $size i32)
    (local $row i32) (local $from i32) (local $to i32) (local $end i32)
    (local.set $bytes (i32.shl (local.get $width) (i32.const 2)))
    (local.set $stride (i32.shl (local.get $outputs) (i32.const 2)))
    (local.set $size (select (local.get $width) (local.get $bytes) (local.get $isInt8)))
    (local.set $end (i32.add (local.get $scratch) (i32.shl (local.get $bytes) (i32.const 1))))
    (call $interleave (local.get $x) (local.get $bytes) (local.get $rows) (local.get $end))
    (loop $pair
      (local.set $step (i32.shl (i32.gt_u (local.get $outputs) (i32.const 1)) (i32.const 2)))
      (call $spread (local.get $matrix) (local.get $scratch) (local.get $end) (local.get $isInt8))
      (if (local.get $step)
        (then (local.set $matrix (i32.add (local.get $matrix) (local.get $size)))))
      (call $spread (local.get $matrix) (i32.add (local.get $scratch) (i32.const 16)) (local.get $end)
        (local.get $isInt8))
      (local.set $matrix (i32.add (local.get $matrix) (local.get $size)))
      (local.set $row (local.get $rows))
      (local.set $from (local.get $end))
      (local.set $to (local.get $y))
      (loop $four
        (call $block (local.get $from) (local.get $scratch) (local.get $end) (local.get $scales) (local.get $bias)
          (local.get $to) (local.get $stride) (local.get $step))
        (local.set $from (i32.add (local.get $from) (i32.shl (local.get $bytes) (i32.const 2))))
        (local.set $to (i32.add (local.get $to) (i32.shl (local.get $stride) (i32.const 2))))
        (br_if $four (local.tee $row (i32.sub (local.get $row) (i32.const 4)))))
      (local.set $scales (i32.add (local.get $scales) (i32.const 8)))
      (local.set $bias (i32.add (local.get $bias) (i32.const 8)))
      (local.set $y (i32.add (local.get $y) (i32.const 8)))
      (br_if $pair (i32.gt_s (local.tee $outputs (i32.sub (local.get $outputs) (i32.const 2))) (i32.const 0)))))

  ;; Writes each four of the rows of x, of `bytes` each, in turn by four columns.
  (func $interleave (param $x i32) (param $bytes i32) (param $rows i32) (param $to i32)
    (local $x1 i32) (local $x2 i32) (local $x3 i32) (local $end i32)
    (loop $four
      (local.set $end (i32.add (local.get $x) (local.get $bytes)))
      (local.set $x1 (local.get $end))
      (local.set $x2 (i32.add (local.get $x1) (local.get $bytes)))
      (local.set $x3 (i32.add (local.get $x2) (local.get $bytes)))
      (loop $column
        (v128.store (local.get $to) (v128.load (local.get $x)))
        (v128.store offset=16 (local.get $to) (v128.load (local.get $x1)))
        (v128.store offset=32 (local.get $to) (v128.load (local.get $x2)))
        (v128.store offset=48 (local.get $to) (v128.load (local.get $x3)))
        (local.set $to (i32.add (local.get $to) (i32.const 64)))
        (local.set $x1 (i32.add (local.get $x1) (i32.const 16)))
        (local.set $x2 (i32.add (local.get $x2) (i32.const 16)))
        (local.set $x3 (i32.add (local.get $x3) (i32.const 16)))
        (br_if $column (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 16))) (local.get $end))))
      (local.set $x (local.get $x3))
      (br_if $four (local.tee $rows (i32.sub (local.get $rows) (i32.const 4))))))

  ;; Writes a row of the matrix as float32 from `to` up to `end`, with room for four of another row after each four.
  (func $spread (param $matrix i32) (param $to i32) (param $end i32) (param $isInt8 i32)
    (local $codes v128)
    (if (local.get $isInt8)
      (then (loop $integers
        (local.set $codes (v128.load8x8_s (local.get $matrix)))
        (v128.store (local.get $to) (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $codes))))
        (v128.store offset=32 (local.get $to) (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $codes))))
        (local.set $matrix (i32.add (local.get $matrix) (i32.const 8)))
        (br_if $integers (i32.lt_u
          (local.tee $to (i32.add (local.get $to) (i32.const 64))) (local.get $end)))))
      (else (loop $floats
        (v128.store (local.get $to) (v128.load (local.get $matrix)))
        (v128.store offset=32 (local.get $to) (v128.load offset=16 (local.get $matrix)))
        (local.set $matrix (i32.add (local.get $matrix) (i32.const 32)))
        (br_if $floats (i32.lt_u
          (local.tee $to (i32.add (local.get $to) (i32.const 64))) (local.get $end)))))))

  ;; Four rows of x with the two rows of the matrix from `pair` up to `end`. The rows of y are `stride` bytes apart, the two
  ;; outputs `step` bytes.
  (func $block
    (param $x i32) (param $pair i32) (param $end i32) (param $scales i32) (param $bias i32)
    (param $y i32) (param $stride i32) (param $step i32)
    (local $one v128) (local $two v128) (local $v v128)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $e v128) (local $f v128) (local $g v128) (local $h v128)
    (loop $column
      (local.set $one (v128.load (local.get $pair)))
      (local.set $two (v128.load offset=16 (local.get $pair)))
      (local.set $v (v128.load (local.get $x)))
      (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $v) (local.get $one))))
      (local.set $e (f32x4.add (local.get $e) (f32x4.mul (local.get $v) (local.get $two))))
      (local.set $v (v128.load offset=16 (local.get $x)))
      (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $v) (local.get $one))))
      (local.set $f (f32x4.add (local.get $f) (f32x4.mul (local.get $v) (local.get $two))))
      (local.set $v (v128.load offset=32 (local.get $x)))
      (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $v) (local.get $one))))
      (local.set $g (f32x4.add (local.get $g) (f32x4.mul (local.get $v) (local.get $two))))
      (local.set $v (v128.load offset=48 (local.get $x)))
      (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $v) (local.get $one))))
      (local.set $h (f32x4.add (local.get $h) (f32x4.mul (local.get $v) (local.get $two))))
      (local.set $one (v128.load offset=32 (local.get $pair)))
      (local.set $two (v128.load offset=48 (local.get $pair)))
      (local.set $v (v128.load offset=64 (local.get $x)))
      (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $v) (local.get $one))))
      (local.set $e (f32x4.add (local.get $e) (f32x4.mul (local.get $v) (local.get $two))))
      (local.set $v (v128.load offset=80 (local.get $x)))
      (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $v) (local.get $one))))
      (local.set $f (f32x4.add (local.get $f) (f32x4.mul (local.get $v) (local.get $two))))
      (local.set $v (v128.load offset=96 (local.get $x)))
      (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $v) (local.get $one))))
      (local.set $g (f32x4.add (local.get $g) (f32x4.mul (local.get $v) (local.get $two))))
      (local.set $v (v128.load offset=112 (local.get $x)))
      (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $v) (local.get $one))))
      (local.set $h (f32x4.add (local.get $h) (f32x4.mul (local.get $v) (local.get $two))))
      (local.set $x (i32.add (local.get $x) (i32.const 128)))
      (br_if $column (i32.lt_u
        (local.tee $pair (i32.add (local.get $pair) (i32.const 64))) (local.get $end))))
    (call $store (local.get $y) (local.get $stride) (local.get $scales) (local.get $bias)
      (local.get $a) (local.get $b) (local.get $c) (local.get $d))
    (call $store (i32.add (local.get $y) (local.get $step)) (local.get $stride)
      (i32.add (local.get $scales) (local.get $step)) (i32.add (local.get $bias) (local.get $step))
      (local.get $e) (local.get $f) (local.get $g) (local.get $h)))

  ;; Writes one output of four rows that lie `stride` bytes apart: the sums of the lanes of a, b, c and d.
  (func $store
    (param $y i32) (param $stride i32) (param $scales i32) (param $bias i32)
    (param $a v128) (param $b v128) (param $c v128) (param $d v128)
    (local.set $a (f32x4.add
      (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $a) (local.get $b))
      (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $a) (local.get $b))))
    (local.set $c (f32x4.add
      (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $c) (local.get $d))
      (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $c) (local.get $d))))
    (local.set $a (f32x4.add
      (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $a) (local.get $c))
      (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $a) (local.get $c))))
    (local.set $a (f32x4.add (v128.load32_splat (local.get $bias))
      (f32x4.mul (v128.load32_splat (local.get $scales)) (local.get $a))))
    (v128.store32_lane 0 (local.get $y) (local.get $a))
    (v128.store32_lane 1 (local.tee $y (i32.add (local.get $y) (local.get $stride))) (local.get $a))
    (v128.store32_lane 2 (local.tee $y (i32.add (local.get $y) (local.get $stride))) (local.get $a))
    (v128.store32_lane 3 (i32.add (local.get $y) (local.get $stride)) (local.get $a)))

  (func $sum (param $v v128) (result f32)
    (f32.add
      (f32.add (f32x4.extract_lane 0 (local.get $v)) (f32x4.extract_lane 1 (local.get $v)))
      (f32.add (f32x4.extract_lane 2 (local.get $v)) (f32x4.extract_lane 3 (local.get $v)))))

  ;; The largest of `count` numbers, a multiple of 4, and the sum of the exponentials of each number minus the largest.
  (func (export "exponentials") (param $x i32) (param $count i32) (result f64 f64)
    (local $i i32) (local $end i32) (local $most v128) (local $v v128) (local $bits v128) (local $whole v128)
    (local $y v128) (local $sum v128)
    (local.set $end (i32.add (local.get $x) (i32.shl (local.get $count) (i32.const 2))))
    (local.set $i (local.get $x))
    (local.set $most (v128.load (local.get $x)))
    (loop $largest
      (local.set $most (f32x4.pmax (v128.load (local.get $i)) (local.get $most)))
      (br_if $largest (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end))))
    (local.set $most (f32x4.max (local.get $most)
      (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $most) (local.get $most))))
    (local.set $most (f32x4.max (local.get $most)
      (i8x16.shuffle 4 5 6 7 0 1 2 3 12 13 14 15 8 9 10 11 (local.get $most) (local.get $most))))
    (local.set $i (local.get $x))
    (loop $add
      ;; exp(v) = 2^whole exp(r) with |r| <= log(2) / 2, by the polynomial of model/decoding/kernels/layers.py: exp
      ;; adding 1.5 * 2^23 rounds to a whole number, which then stands in the last bits
      (local.set $v (f32x4.pmax (f32x4.sub (v128.load (local.get $i)) (local.get $most))
        (v128.const f32x4 -87 -87 -87 -87)))
      (local.set $bits (f32x4.add (f32x4.mul (local.get $v)
        (v128.const f32x4 1.44269504 1.44269504 1.44269504 1.44269504))
        (v128.const f32x4 12582912 12582912 12582912 12582912)))
      (local.set $whole (f32x4.sub (local.get $bits) (v128.const f32x4 12582912 12582912 12582912 12582912)))
      (local.set $v (f32x4.sub (local.get $v) (f32x4.mul (local.get $whole)
        (v128.const f32x4 0.693359375 0.693359375 0.693359375 0.693359375))))
      (local.set $v (f32x4.add (local.get $v) (f32x4.mul (local.get $whole)
        (v128.const f32x4 2.12194440e-4 2.12194440e-4 2.12194440e-4 2.12194440e-4))))
      (local.set $y (v128.const f32x4 1.9875691e-4 1.9875691e-4 1.9875691e-4 1.9875691e-4))
      (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $v))
        (v128.const f32x4 1.3981999e-3 1.3981999e-3 1.3981999e-3 1.3981999e-3)))
      (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $v))
        (v128.const f32x4 8.3334519e-3 8.3334519e-3 8.3334519e-3 8.3334519e-3)))
      (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $v))
        (v128.const f32x4 4.1665796e-2 4.1665796e-2 4.1665796e-2 4.1665796e-2)))
      (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $v))
        (v128.const f32x4 1.6666666e-1 1.6666666e-1 1.6666666e-1 1.6666666e-1)))
      (local.set $y (f32x4.add (f32x4.mul (local.get $y) (local.get $v))
        (v128.const f32x4 0.5 0.5 0.5 0.5)))
      (local.set $y (f32x4.add (f32x4.mul (f32x4.mul (local.get $y) (local.get $v)) (local.get $v)) (local.get $v)))
      (local.set $y (f32x4.mul (f32x4.add (local.get $y) (v128.const f32x4 1 1 1 1))
        (i32x4.shl (i32x4.add (local.get $bits) (v128.const i32x4 127 127 127 127))
          (i32.const 23))))
      (local.set $sum (f64x2.add (local.get $sum) (f64x2.add (f64x2.promote_low_f32x4 (local.get $y))
        (f64x2.promote_low_f32x4
          (i8x16.shuffle 8 9 10 11 12 13 14 15 8 9 10 11 12 13 14 15 (local.get $y) (local.get $y))))))
      (br_if $add (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end))))
    (f64.promote_f32 (f32x4.extract_lane 0 (local.get $most)))
    (f64.add (f64x2.extract_lane 0 (local.get $sum)) (f64x2.extract_lane 1 (local.get $sum)))))
