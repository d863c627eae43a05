// The random numbers of torch: MT19937 (Matsumoto and Nishimura 1998).

const [SIZE, MIDDLE] = [624, 397];

// A function that gives whole numbers of 32 bits.
/** @type {(seed: number) => () => number} */
export function createRandom(seed) {
  const state = new Uint32Array(SIZE);
  state[0] = seed;
  for (let place = 1; place < SIZE; place += 1)
    state[place] = Math.imul(1812433253, state[place - 1] ^ (state[place - 1] >>> 30)) + place;
  let at = SIZE;
  const twist = () => {
    for (let place = 0; place < SIZE; place += 1) {
      const both = (state[place] & 0x80000000) | (state[(place + 1) % SIZE] & 0x7fffffff);
      state[place] = state[(place + MIDDLE) % SIZE] ^ (both >>> 1) ^ (both & 1 ? 0x9908b0df : 0);
    }
    at = 0;
  };
  return () => {
    if (at === SIZE) twist();
    let value = state[(at += 1) - 1];
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c5680;
    value ^= (value << 15) & 0xefc60000;
    return (value ^ (value >>> 18)) >>> 0;
  };
}
