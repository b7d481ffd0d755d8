// Small operations between GPUs that share memory, one kernel each. `cargo run -p xtask -- ptx`
// compiles this file to PTX, once for each element type: ELEMENT is its number below.
//
// A line is eight bytes of data and an eight-byte flag, stored at once: a reader that sees the flag
// also sees the data, so no fences are needed. Thread t of block b writes into its own slots in
// each peer's staging memory, and reads what thread t of block b of each peer wrote into its
// staging memory. The flag is the number of batches that the block has run in the life of this
// communicator. Its last bit selects one half of the slots, so a slot is rewritten two batches
// later.
//
// By then the peer has read the slot. In the batch between, this block received lines that were
// sent after the peer's block had read the batch before, from the peer itself or from a block that
// had heard from it. This requires two things: the threads of a block synchronise between batches,
// and a block counts no batch in which it has no line. A thread takes part in a batch with all
// lines up to the end of the last group of 32; those past the end of memory are zero.
//
// In `exchange` a rank may send to another and receive nothing from it, so it has its own slots and
// waits for acknowledgements.
//
// Launches of one communicator are ordered on each rank, and are the same on all ranks.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Shared with the host: src/cuda/kernels/mod.rs.
constexpr u32 RANKS = 32;    // most ranks
constexpr u32 OPS = 96;      // most operations of a launch
constexpr u32 THREADS = 512; // per block
constexpr u32 BLOCKS = 32;   // most blocks that send lines
constexpr u32 PUSHES = 64;   // most blocks of `push`
constexpr u32 BATCH = 4;     // lines per thread at a time
constexpr u32 NOBODY = 0xffff;
// Indices into `batches`: whether the communicator is over; how many rows blocks have normed
// together, followed by their sums of 16 bytes; which blocks are running.
constexpr u32 OVER = 2 * BLOCKS + PUSHES;
constexpr u32 NORMS = OVER + 2;
constexpr u32 RUNNING = NORMS + 5 * PUSHES;

// An operation: `bytes` of `source`, reduced into `target`; or sent to `to`, with as many received
// from `from` into `target`.
struct Op {
    const u8* source;
    u8* target;
    u32 bytes;
    u16 to, from;
};

struct Args {
    u64 staging[RANKS];  // of each rank, as this one addresses it
    // How many batches each block has run: of lines, of `exchange`, of `push`. Then OVER, which is
    // not 0 once the communicator is over, so that later kernels touch nothing; then NORMS and
    // RUNNING.
    u64* batches;
    volatile u32* stop;  // on the host: not 0 once waiting kernels must end
    u32 rank, ranks;
    u32 count;           // number of operations
    u32 groups;          // number of groups of 32 lines, over all operations
    u32 reduction;       // 0 sum, 1 product, 2 minimum, 3 maximum
    u32 divisor;         // divides the result: the number of ranks for a mean, else 1
    u32 starts[OPS];     // the first group of each operation
    Op ops[OPS];
};

// T is the element, A its accumulator, and U the unsigned A, so that integers wrap.
#if ELEMENT == 0
typedef signed char T; typedef signed char A; typedef u8 U;
#elif ELEMENT == 1
typedef u8 T; typedef u8 A; typedef u8 U;
#elif ELEMENT == 2
typedef int T; typedef int A; typedef u32 U;
#elif ELEMENT == 3
typedef u32 T; typedef u32 A; typedef u32 U;
#elif ELEMENT == 4
typedef long long T; typedef long long A; typedef u64 U;
#elif ELEMENT == 5
typedef u64 T; typedef u64 A; typedef u64 U;
#elif ELEMENT == 6 // f16
typedef u16 T; typedef float A; typedef float U;
__device__ A wide(T x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
__device__ T narrow(A x) { T y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
#define FLOAT
#elif ELEMENT == 7
typedef float T; typedef float A; typedef float U;
#define FLOAT
#elif ELEMENT == 8
typedef double T; typedef double A; typedef double U;
#define FLOAT
#elif ELEMENT == 9 // bf16
typedef u16 T; typedef float A; typedef float U;
__device__ A wide(T x) { return __uint_as_float((u32)x << 16); }
__device__ T narrow(A x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (T)((bits >> 16) | 0x40);
    return (T)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#define FLOAT
#endif
#if ELEMENT != 6 && ELEMENT != 9
__device__ A wide(T x) { return x; }
__device__ T narrow(A x) { return x; }
#endif

constexpr u32 LANES = 8 / sizeof(T);

// An integer of the size of T.
template <u32 SIZE> struct Integer;
template <> struct Integer<1> { typedef u8 Type; };
template <> struct Integer<2> { typedef u16 Type; };
template <> struct Integer<4> { typedef u32 Type; };
template <> struct Integer<8> { typedef u64 Type; };
typedef Integer<sizeof(T)>::Type Bits;

union Line {
    u64 bits;
    T lanes[LANES];
};

struct Sum {
    A lanes[LANES];
};

__device__ A least(A x, A y) {
#ifdef FLOAT
    return x != x ? y : y != y ? x : y < x ? y : x;
#else
    return y < x ? y : x;
#endif
}

__device__ A greatest(A x, A y) {
#ifdef FLOAT
    return x != x ? y : y != y ? x : y > x ? y : x;
#else
    return y > x ? y : x;
#endif
}

__device__ __forceinline__ void begin(Sum& sum, u64 bits) {
    Line line;
    line.bits = bits;
#pragma unroll
    for (u32 i = 0; i < LANES; i++) sum.lanes[i] = wide(line.lanes[i]);
}

// Four loops, so that the reduction is tested once per line.
__device__ __forceinline__ void add(Sum& sum, u64 bits, u32 reduction) {
    Line line;
    line.bits = bits;
#define EACH(result) \
    _Pragma("unroll") for (u32 i = 0; i < LANES; i++) { \
        A x = sum.lanes[i], y = wide(line.lanes[i]); \
        sum.lanes[i] = result; \
    }
    if (reduction == 0) { EACH((A)((U)x + (U)y)) }
    else if (reduction == 1) { EACH((A)((U)x * (U)y)) }
    else if (reduction == 2) { EACH(least(x, y)) }
    else { EACH(greatest(x, y)) }
}

#ifdef FLOAT
#define DIVIDED(x) (divisor == 1 ? x : x / (A)divisor)
#else
#define DIVIDED(x) x // Integers have no mean.
#endif

__device__ __forceinline__ u64 end(const Sum& sum, u32 divisor) {
    Line line;
#pragma unroll
    for (u32 i = 0; i < LANES; i++) line.lanes[i] = narrow(DIVIDED(sum.lanes[i]));
    return line.bits;
}

// For tests: with -DLATE, threads sleep at random points.
__device__ __forceinline__ void late() {
#ifdef LATE
    u32 now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
    now = (now ^ (threadIdx.x * 2654435761u)) * 2246822519u;
    if ((now >> 24) < 12) __nanosleep(now >> 18 & 0x3fff);
#endif
}

__device__ __forceinline__ void put(u64 slot, u64 data, u64 flag) {
    late();
    asm volatile("{ .reg .b128 line; mov.b128 line, {%1, %2}; st.relaxed.sys.global.b128 [%0], line; }"
                 :: "l"(slot), "l"(data), "l"(flag) : "memory");
}

// Marks this block as running. Returns for `is_over` whether the communicator was over before; that
// load overlaps with reading the data to send.
__device__ __forceinline__ u64 enter(const Args& a) {
    if (threadIdx.x != 0) return 0;
    *(volatile u64*)(a.batches + RUNNING + blockIdx.x) = 1;
    return *(volatile u64*)(a.batches + OVER);
}

// Whether the communicator was over before this block ran. If so, the block ends without touching
// the other ranks' memory. The host marks the communicator as over, and unmaps that memory once no
// block runs. No fences are needed: the host allows a millisecond for stores to arrive.
__device__ __forceinline__ bool is_over(const Args& a, u64 over) {
    if (!__syncthreads_or(over != 0)) return false;
    if (threadIdx.x == 0) *(volatile u64*)(a.batches + RUNNING + blockIdx.x) = 0;
    return true;
}

// Stores how many batches this block has run, and marks it as done.
__device__ __forceinline__ void leave(const Args& a, u64* batches, u64 batch) {
    __syncthreads();
    if (threadIdx.x != 0) return;
    batches[blockIdx.x] = batch;
    *(volatile u64*)(a.batches + RUNNING + blockIdx.x) = 0;
}

// Waits for up to four lines at once, or until the communicator is `over`.
__device__ __forceinline__ void take(const u64 (&slots)[BATCH], const bool (&wanted)[BATCH], u64 expected,
                                     volatile u32* stop, bool& over, u64 (&data)[BATCH]) {
    late();
    for (u32 turns = 1;; turns++) {
        bool all = true;
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            if (!wanted[k]) continue;
            u64 flag;
            asm volatile("{ .reg .b128 line; ld.relaxed.sys.global.b128 line, [%2]; mov.b128 {%0, %1}, line; }"
                         : "=l"(data[k]), "=l"(flag) : "l"(slots[k]) : "memory");
            all &= flag == expected;
        }
        if (turns % 4096 == 0 && *stop) over = true;
        if (all || over) return;
    }
}

// Where in the memory of `at` thread `threadIdx.x` of this block finds what `from` wrote for it.
__device__ __forceinline__ u64 slot(const Args& a, u32 at, u32 number, u32 from) {
    return a.staging[at] + ((((u64)blockIdx.x * 6 * BATCH + number) * a.ranks + from) * THREADS + threadIdx.x) * 16;
}

__device__ __forceinline__ u32 peer(const Args& a, u32 ahead) {
    u32 rank = a.rank + ahead;
    return rank < a.ranks ? rank : rank - a.ranks;
}

__device__ __forceinline__ u32 operation(const Args& a, u32 group) {
    u32 first = 0, past = a.count;
    while (past - first > 1) {
        u32 middle = (first + past) / 2;
        if (a.starts[middle] <= group) first = middle;
        else past = middle;
    }
    return first;
}

// Loads a line at the end of an operation's memory, or an unaligned one, element by element. It is
// rare, so not inlined. The elements are loaded in a loop, not each under its own condition: with
// eight conditional loads, ptxas 13.0 read a register five cycles after zeroing it, and sometimes
// got its old value.
__device__ __noinline__ u64 load_part(const Bits* from, u32 elements) {
    u64 bits = 0;
    if (elements >= LANES) {
#pragma unroll
        for (u32 i = 0; i < LANES; i++) bits |= (u64)from[i] << (i * 8 * sizeof(T));
        return bits;
    }
#pragma unroll 1
    for (u32 i = 0; i < elements; i++) bits |= (u64)from[i] << (i * 8 * sizeof(T));
    return bits;
}

__device__ __noinline__ void store_part(T* to, u32 elements, u64 bits) {
    Line line;
    line.bits = bits;
#pragma unroll
    for (u32 i = 0; i < LANES; i++)
        if (i < elements) to[i] = line.lanes[i];
}

// The line at a byte offset of an operation's memory, with zeros past the end.
__device__ __forceinline__ u64 load(const u8* from, u32 at, u32 bytes) {
    if (at >= bytes) return 0;
    from += at;
    if (at + 8 <= bytes && ((u64)from & 7) == 0) return *(const u64*)from;
    return load_part((const Bits*)from, (bytes - at) / sizeof(T));
}

__device__ __forceinline__ void store(u8* to, u32 at, u32 bytes, u64 bits) {
    if (at >= bytes) return;
    to += at;
    if (at + 8 <= bytes && ((u64)to & 7) == 0) *(u64*)to = bits;
    else store_part((T*)to, (bytes - at) / sizeof(T), bits);
}

// The line of a thread among those of all operations. It may be past the end of its operation's
// memory.
struct Place {
    u32 op, at;
    bool is;
};

__device__ __forceinline__ Place place(const Args& a, u32 line) {
    if (line >= a.groups * 32) return {0, 0, false};
    u32 op = operation(a, line / 32);
    return {op, (line - a.starts[op] * 32) * 8, true};
}

// Sends a thread's lines to all peers.
__device__ __forceinline__ void tell(const Args& a, u32 half, const bool (&is)[BATCH], const u64 (&own)[BATCH],
                                     u64 batch) {
    for (u32 p = 1; p < a.ranks; p++) {
#pragma unroll
        for (u32 k = 0; k < BATCH; k++)
            if (is[k]) put(slot(a, peer(a, p), half + k, a.rank), own[k], batch);
    }
}

// Reduces all ranks' lines in rank order. With `single`, a thread has at most one line, the first.
__device__ __forceinline__ void reduce(const Args& a, u32 half, const bool (&is)[BATCH], const u64 (&own)[BATCH],
                                       u64 batch, bool single, u32 reduction, bool& over,
                                       Sum (&sums)[BATCH]) {
    u64 slots[BATCH], data[BATCH];
    bool wanted[BATCH];
    if (single) {
        for (u32 base = 0; base < a.ranks; base += BATCH) {
#pragma unroll
            for (u32 i = 0; i < BATCH; i++) {
                wanted[i] = is[0] && base + i < a.ranks && base + i != a.rank;
                slots[i] = slot(a, a.rank, half, base + i);
            }
            take(slots, wanted, batch, a.stop, over, data);
#pragma unroll
            for (u32 i = 0; i < BATCH; i++) {
                if (!is[0] || base + i >= a.ranks) continue;
                u64 bits = base + i == a.rank ? own[0] : data[i];
                if (base + i == 0) begin(sums[0], bits);
                else add(sums[0], bits, reduction);
            }
        }
        return;
    }
    for (u32 r = 0; r < a.ranks; r++) {
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) wanted[k] = is[k] && r != a.rank, slots[k] = slot(a, a.rank, half + k, r);
        take(slots, wanted, batch, a.stop, over, data);
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            if (!is[k]) continue;
            u64 bits = r == a.rank ? own[k] : data[k];
            if (r == 0) begin(sums[k], bits);
            else add(sums[k], bits, reduction);
        }
    }
}

// Each operation is an all_reduce: every rank sends its lines to all others and reduces theirs.
extern "C" __global__ void __launch_bounds__(THREADS) one_shot(const __grid_constant__ Args a) {
    u64 batch = a.batches[blockIdx.x], before = enter(a);
    bool over = false;
    u32 thread = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    for (u32 base = 0; base + blockIdx.x * THREADS < a.groups * 32; base += stride * BATCH) {
        if (base > 0) __syncthreads();
        batch++;
        u32 half = (batch & 1) * 2 * BATCH;
        Place places[BATCH];
        bool is[BATCH];
        u64 own[BATCH];
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            places[k] = place(a, base + k * stride + thread);
            is[k] = places[k].is;
            const Op& op = a.ops[places[k].op];
            if (is[k]) own[k] = load(op.source, places[k].at, op.bytes);
        }
        if (base == 0 && is_over(a, before)) return;
        tell(a, half, is, own, batch);
        Sum sums[BATCH];
        reduce(a, half, is, own, batch, a.groups * 32 - base <= stride, a.reduction, over, sums);
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            const Op& op = a.ops[places[k].op];
            if (is[k]) store(op.target, places[k].at, op.bytes, end(sums[k], a.divisor));
        }
    }
    leave(a, a.batches, batch);
}

// One all_reduce: each rank reduces one part and sends the result to all others. Groups count the
// lines of one part.
extern "C" __global__ void __launch_bounds__(THREADS) two_shot(const __grid_constant__ Args a) {
    u64 batch = a.batches[blockIdx.x];
    if (is_over(a, enter(a))) return;
    bool over = false;
    u32 thread = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS, part = a.groups * 32;
    const Op& op = a.ops[0];
    auto at = [&](u32 rank, u32 line) { return (rank * part + line) * 8; };
    auto is_in = [&](u32 rank, u32 line) { return line < part && (u64)(rank * (u64)part + line) * 8 < op.bytes; };
    for (u32 base = thread; base - threadIdx.x < part; base += stride * BATCH) {
        if (base > thread) __syncthreads();
        batch++;
        u32 half = (batch & 1) * 2 * BATCH;
        for (u32 p = 1; p < a.ranks; p++) {
            u32 to = peer(a, p);
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                u32 line = base + k * stride;
                if (is_in(to, line)) put(slot(a, to, half + k, a.rank), load(op.source, at(to, line), op.bytes), batch);
            }
        }
        bool is[BATCH];
        u64 own[BATCH], data[BATCH], slots[BATCH];
        Sum sums[BATCH];
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            is[k] = is_in(a.rank, base + k * stride);
            if (is[k]) own[k] = load(op.source, at(a.rank, base + k * stride), op.bytes);
        }
        reduce(a, half, is, own, batch, part - (base - thread) <= stride, a.reduction, over, sums);
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            if (!is[k]) continue;
            own[k] = end(sums[k], a.divisor);
            store(op.target, at(a.rank, base + k * stride), op.bytes, own[k]);
        }
        tell(a, half + BATCH, is, own, batch);
        for (u32 p = 1; p < a.ranks; p++) {
            u32 from = peer(a, p);
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                is[k] = is_in(from, base + k * stride);
                slots[k] = slot(a, a.rank, half + BATCH + k, from);
            }
            take(slots, is, batch, a.stop, over, data);
#pragma unroll
            for (u32 k = 0; k < BATCH; k++)
                if (is[k]) store(op.target, at(from, base + k * stride), op.bytes, data[k]);
        }
    }
    leave(a, a.batches, batch);
}

// Where `push` has its memory: past the lines' memory, so that its data is never taken for a flag.
__device__ __forceinline__ u64 pushed(const Args& a, u32 at) {
    return a.staging[at] + (u64)BLOCKS * 6 * BATCH * a.ranks * THREADS * 16;
}

__device__ __forceinline__ u64 pair_of(const Args& a, u32 at, u32 number, u32 from) {
    return pushed(a, at) + ((((u64)blockIdx.x * 2 * BATCH + number) * a.ranks + from) * THREADS + threadIdx.x) * 16;
}

// Where this block, as `from`, tells `at` which of its batches are over: of `exchange`, or of
// `push`.
__device__ __forceinline__ u64 flag(const Args& a, u32 at, u32 from, bool push) {
    u64 memory = pushed(a, at) + (u64)PUSHES * 2 * BATCH * THREADS * 16 * a.ranks;
    return memory + (((u64)blockIdx.x + (push ? BLOCKS : 0)) * a.ranks + from) * 8;
}

__device__ __forceinline__ void say(u64 flag, u64 batch) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" :: "l"(flag), "l"(batch) : "memory");
}

__device__ __forceinline__ void hear(u64 flag, u64 batch, volatile u32* stop, bool& over) {
    for (u32 turns = 1; !over; turns++) {
        u64 seen;
        asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(seen) : "l"(flag) : "memory");
        if (turns % 4096 == 0 && *stop) over = true;
        if (seen >= batch) return;
    }
}

// Each operation sends its lines to `to` and receives as many from `from`.
extern "C" __global__ void __launch_bounds__(THREADS) exchange(const __grid_constant__ Args a) {
    u64 batch = a.batches[BLOCKS + blockIdx.x];
    if (is_over(a, enter(a))) return;
    bool over = false;
    u32 thread = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    bool speaks = threadIdx.x < a.ranks && threadIdx.x != a.rank;
    for (u32 base = 0; base < a.groups * 32; base += stride * BATCH) {
        batch++;
        u32 half = 4 * BATCH + (batch & 1) * BATCH;
        if (speaks && batch > 2) hear(flag(a, a.rank, threadIdx.x, false), batch - 2, a.stop, over);
        __syncthreads();
        Place places[BATCH];
        bool wanted[BATCH];
        u64 own[BATCH], data[BATCH], slots[BATCH];
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            places[k] = place(a, base + k * stride + thread);
            const Op& op = a.ops[places[k].op];
            wanted[k] = places[k].is && op.from != NOBODY && op.from != a.rank;
            slots[k] = slot(a, a.rank, half + k, op.from);
            if (!places[k].is || op.to == NOBODY) continue;
            own[k] = load(op.source, places[k].at, op.bytes);
            if (op.to != a.rank) put(slot(a, op.to, half + k, a.rank), own[k], batch);
        }
        take(slots, wanted, batch, a.stop, over, data);
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            const Op& op = a.ops[places[k].op];
            if (places[k].is && op.from != NOBODY)
                store(op.target, places[k].at, op.bytes, op.from == a.rank ? own[k] : data[k]);
        }
        __syncthreads();
        if (speaks) say(flag(a, threadIdx.x, a.rank, false), batch);
    }
    leave(a, a.batches + BLOCKS, batch);
}

// Tells the same block of all peers that this one's writes are complete, and waits for theirs.
__device__ __forceinline__ void meet(const Args& a, u64 batch, bool& over) {
    __syncthreads();
    if (threadIdx.x < a.ranks && threadIdx.x != a.rank) {
        say(flag(a, threadIdx.x, a.rank, true), batch);
        hear(flag(a, a.rank, threadIdx.x, true), batch, a.stop, over);
    }
    __syncthreads();
}

struct alignas(16) Pair {
    u64 low, high;
};

__device__ __forceinline__ Pair load_pair(const u8* from, u32 at, u32 bytes) {
    if (at + 16 <= bytes && ((u64)(from + at) & 15) == 0) return *(const Pair*)(from + at);
    return {load(from, at, bytes), load(from, at + 8, bytes)};
}

__device__ __forceinline__ void store_pair(u8* to, u32 at, u32 bytes, Pair pair) {
    if (at + 16 <= bytes && ((u64)(to + at) & 15) == 0) {
        *(Pair*)(to + at) = pair;
    } else {
        store(to, at, bytes, pair.low);
        store(to, at + 8, bytes, pair.high);
    }
}

// Sends a thread's pairs to all peers.
__device__ __forceinline__ void tell_pairs(const Args& a, u32 half, const bool (&is)[BATCH], const Pair (&own)[BATCH]) {
    for (u32 p = 1; p < a.ranks; p++) {
#pragma unroll
        for (u32 k = 0; k < BATCH; k++)
            if (is[k]) *(Pair*)pair_of(a, peer(a, p), half + k, a.rank) = own[k];
    }
}

// Reduces all ranks' pairs of this number in rank order.
__device__ __forceinline__ void reduce_pairs(const Args& a, u32 number, Pair own, u32 reduction, Sum& low, Sum& high) {
    for (u32 r = 0; r < a.ranks; r++) {
        Pair pair = own;
        if (r != a.rank)
            asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                         : "=l"(pair.low), "=l"(pair.high) : "l"(pair_of(a, a.rank, number, r)) : "memory");
        if (r == 0) begin(low, pair.low), begin(high, pair.high);
        else add(low, pair.low, reduction), add(high, pair.high, reduction);
    }
}

// One all_reduce like `one_shot`, but with data without flags, and one flag per block and batch.
// Groups have lines of 16 bytes.
extern "C" __global__ void __launch_bounds__(THREADS) push(const __grid_constant__ Args a) {
    u64 batch = a.batches[2 * BLOCKS + blockIdx.x], before = enter(a);
    bool over = false;
    u32 thread = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    const Op& op = a.ops[0];
    u32 whole = (op.bytes + 15) / 16;
    for (u32 base = 0; base < whole; base += stride * BATCH) {
        batch++;
        u32 half = (batch & 1) * BATCH;
        bool is[BATCH];
        Pair own[BATCH];
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            u32 line = base + k * stride + thread;
            is[k] = line < whole;
            if (is[k]) own[k] = load_pair(op.source, line * 16, op.bytes);
        }
        if (base == 0 && is_over(a, before)) return;
        tell_pairs(a, half, is, own);
        meet(a, batch, over);
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            if (!is[k]) continue;
            Sum low, high;
            reduce_pairs(a, half + k, own[k], a.reduction, low, high);
            Pair result = {end(low, a.divisor), end(high, a.divisor)};
            store_pair(op.target, (base + k * stride + thread) * 16, op.bytes, result);
        }
    }
    leave(a, a.batches + 2 * BLOCKS, batch);
}

#ifdef FLOAT
union Number {
    A value;
    u64 bits;
};

// The sum over all threads of the `parts` blocks from `first` on, with the same bits in each.
// Blocks exchange their sums by lines, as ranks do; the flag is the number of rows summed this way
// on this GPU. A block waits for others of its grid, so all of them must fit on the GPU at once,
// beside other kernels that wait for them. There are at most 64, and no more than the GPU has
// multiprocessors; kernels that do not wait for them end and make room. The same holds between
// ranks, as a peer's block may wait for any of these.
__device__ __forceinline__ A total(const Args& a, A own, u32 first, u32 parts, u64 norm, bool& over) {
    __shared__ A of_warps[THREADS / 32], of_parts[PUSHES];
#pragma unroll
    for (u32 lane = 16; lane > 0; lane /= 2) own += __shfl_xor_sync(0xffffffff, own, lane);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
    __syncthreads();
    A all = 0;
    for (u32 warp = 0; warp < THREADS / 32; warp++) all += of_warps[warp];
    if (parts == 1) return all;
    if (threadIdx.x < parts) {
        u64 lines = (u64)(a.batches + NORMS + PUSHES) + (norm & 1) * PUSHES * 16, block = first + threadIdx.x;
        Number number;
        number.bits = 0;
        number.value = all;
        if (block == blockIdx.x) put(lines + block * 16, number.bits, norm);
        const u64 slots[BATCH] = {lines + block * 16};
        const bool wanted[BATCH] = {true};
        u64 data[BATCH];
        take(slots, wanted, norm, a.stop, over, data);
        number.bits = data[0];
        of_parts[threadIdx.x] = number.value;
    }
    __syncthreads();
    all = 0;
    for (u32 part = 0; part < parts; part++) all += of_parts[part];
    return all;
}

// The additional arguments of `rms_norm`.
struct Norm {
    const T* weight;
    u32 width, rows, parts;
    float epsilon;
};

// A thread's lines in a batch, of WORDS eight-byte words each.
template <u32 WORDS>
struct Lines {
    u64 bits[BATCH][WORDS];

    __device__ __forceinline__ void get(u32 k, const u8* from, u32 line, u32 bytes) {
        if constexpr (WORDS == 1) {
            bits[k][0] = load(from, line * 8, bytes);
        } else {
            Pair pair = load_pair(from, line * 16, bytes);
            bits[k][0] = pair.low, bits[k][1] = pair.high;
        }
    }

    __device__ __forceinline__ void set(u32 k, u8* to, u32 line, u32 bytes) const {
        if constexpr (WORDS == 1) store(to, line * 8, bytes, bits[k][0]);
        else store_pair(to, line * 16, bytes, {bits[k][0], bits[k][1]});
    }
};

// Replaces this rank's lines by the sums over all ranks, and accumulates the sums' squares.
template <u32 WORDS>
__device__ __forceinline__ void sum_lines(const Args& a, u64 batch, const bool (&is)[BATCH], bool single, Lines<WORDS>& own,
                                          A& square, bool& over) {
    auto squared = [&](const Sum& sum) {
#pragma unroll
        for (u32 i = 0; i < LANES; i++) square += sum.lanes[i] * sum.lanes[i];
        return end(sum, 1);
    };
    if constexpr (WORDS == 1) {
        u32 half = (batch & 1) * 2 * BATCH;
        u64 bits[BATCH];
        Sum sums[BATCH];
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) bits[k] = own.bits[k][0];
        tell(a, half, is, bits, batch);
        reduce(a, half, is, bits, batch, single, 0, over, sums);
#pragma unroll
        for (u32 k = 0; k < BATCH; k++)
            if (is[k]) own.bits[k][0] = squared(sums[k]);
    } else {
        u32 half = (batch & 1) * BATCH;
        Pair pairs[BATCH];
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) pairs[k] = {own.bits[k][0], own.bits[k][1]};
        tell_pairs(a, half, is, pairs);
        meet(a, batch, over);
#pragma unroll
        for (u32 k = 0; k < BATCH; k++) {
            if (!is[k]) continue;
            Sum low, high;
            reduce_pairs(a, half + k, pairs[k], 0, low, high);
            own.bits[k][0] = squared(low), own.bits[k][1] = squared(high);
        }
    }
}

// All_reduce of rows of `width` elements, each then divided by the root of its mean square and
// multiplied by `weight`. `parts` blocks share a row, each with a part of its lines. Operation 0 is
// the rows.
template <u32 WORDS>
__device__ __forceinline__ void norm_rows(const Args& a, u64* batches, const Norm& n) {
    u64 batch = batches[blockIdx.x], norm = a.batches[NORMS + blockIdx.x], before = enter(a);
    bool over = false;
    const Op& op = a.ops[0];
    const u8* weight = (const u8*)n.weight;
    u32 bytes = n.width * sizeof(T), groups = (bytes + 8 * WORDS * 32 - 1) / (8 * WORDS * 32);
    u32 part = blockIdx.x % n.parts, teams = gridDim.x / n.parts, share = (groups + n.parts - 1) / n.parts * 32;
    u32 first = part * share, past = first + share < groups * 32 ? first + share : groups * 32;
    for (u32 row = blockIdx.x / n.parts; row < n.rows; row += teams) {
        const u8* source = op.source + (u64)row * bytes;
        u8* target = op.target + (u64)row * bytes;
        A square = 0;
        // The last batch stays in registers until it is normed.
        Lines<WORDS> sums, weights;
        for (u32 base = first; base < past; base += THREADS * BATCH) {
            if (base > first) __syncthreads();
            batch++;
            bool is[BATCH];
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                u32 line = base + k * THREADS + threadIdx.x;
                is[k] = line < past;
                if (is[k]) sums.get(k, source, line, bytes);
            }
#pragma unroll
            for (u32 k = 0; k < BATCH; k++)
                if (is[k]) weights.get(k, weight, base + k * THREADS + threadIdx.x, bytes);
            if (row < teams && base == first && is_over(a, before)) return;
            sum_lines(a, batch, is, past - base <= THREADS, sums, square, over);
            if (past - base <= THREADS * BATCH) break;
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) sums.set(k, target, base + k * THREADS + threadIdx.x, bytes);
        }
        A all = total(a, square, blockIdx.x - part, n.parts, ++norm, over);
        A scale = 1 / sqrt(all / (A)n.width + (A)n.epsilon);
        for (u32 base = first; base < past; base += THREADS * BATCH) {
            bool is_last = past - base <= THREADS * BATCH;
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                u32 line = base + k * THREADS + threadIdx.x;
                if (line >= past) continue;
                Lines<WORDS> one = sums, scales = weights;
                if (!is_last) one.get(k, target, line, bytes), scales.get(k, weight, line, bytes);
#pragma unroll
                for (u32 word = 0; word < WORDS; word++) {
                    Line sum, by;
                    sum.bits = one.bits[k][word], by.bits = scales.bits[k][word];
#pragma unroll
                    for (u32 i = 0; i < LANES; i++)
                        sum.lanes[i] = narrow(wide(sum.lanes[i]) * scale * wide(by.lanes[i]));
                    one.bits[k][word] = sum.bits;
                }
                one.set(k, target, line, bytes);
            }
        }
    }
    // Every possible block gets the same count, as the next launch may have more blocks.
    if (threadIdx.x == 0) {
        norm = a.batches[NORMS + blockIdx.x] + (n.rows + teams - 1) / teams;
        for (u32 block = blockIdx.x; block < PUSHES; block += gridDim.x) a.batches[NORMS + block] = norm;
    }
    leave(a, batches, batch);
}

// With a flag beside all data, like `one_shot`.
extern "C" __global__ void __launch_bounds__(THREADS) rms_norm(const __grid_constant__ Args a, const __grid_constant__ Norm n) {
    norm_rows<1>(a, a.batches, n);
}

// Like `push`.
extern "C" __global__ void __launch_bounds__(THREADS)
    push_rms_norm(const __grid_constant__ Args a, const __grid_constant__ Norm n) {
    norm_rows<2>(a, a.batches + 2 * BLOCKS, n);
}
#endif
