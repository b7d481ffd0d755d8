//! The memory that kernels access: their arguments, the ranks' memory, and flags.

use std::hint;
use std::ptr;
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::thread;
use std::time::{Duration, Instant};

use super::element::Element;

pub(super) const THREADS: usize = 512;
pub(super) const BATCH: usize = 4;
const BLOCKS: usize = 32;
const PUSHES: usize = 64;
/// Index of the counts of rows, among those of batches.
const NORMS: usize = 2 * BLOCKS + PUSHES + 2;
/// Index of the flags by which blocks report that they run.
const RUNNING: usize = NORMS + 5 * PUSHES;
const NOBODY: u64 = 0xffff;

/// How long a rank may take to learn that it is over.
const SOON: Duration = Duration::from_secs(2);

/// The arguments of a launch, in words of eight bytes.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a>(pub(super) &'a [u64]);

/// One block of a launch.
pub(super) struct Block<'a> {
    pub(super) arguments: Arguments<'a>,
    pub(super) element: Element,
    pub(super) block: usize,
    pub(super) blocks: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Op {
    source: u64,
    target: u64,
    pub(super) bytes: usize,
    pub(super) to: Option<usize>,
    pub(super) from: Option<usize>,
}

/// The additional arguments of a kernel that norms rows.
pub(super) struct Norm {
    pub(super) weight: u64,
    pub(super) width: usize,
    pub(super) rows: usize,
    /// Blocks that share a row.
    pub(super) parts: usize,
    pub(super) epsilon: f32,
}

impl Arguments<'_> {
    fn half(&self, at: usize) -> u32 {
        let word = self.0[at / 2];
        if at.is_multiple_of(2) { word as u32 } else { (word >> 32) as u32 }
    }

    /// Records for this many blocks whether they run.
    pub(super) fn runs(&self, blocks: usize, runs: bool) {
        for block in 0..blocks {
            let place = self.0[32] as usize + (RUNNING + block) * 8;
            let place = ptr::with_exposed_provenance_mut::<u64>(place);
            // SAFETY: the counts exist, with a word for each block.
            unsafe { AtomicU64::from_ptr(place) }.store(runs.into(), Release);
        }
    }

    /// Whether waiting kernels must end.
    pub(super) fn is_stopped(&self) -> bool {
        let place = ptr::with_exposed_provenance_mut::<u32>(self.0[33] as usize);
        // SAFETY: it is a host word that is never freed and only written atomically.
        unsafe { AtomicU32::from_ptr(place) }.load(Acquire) != 0
    }

    /// Whether the communicator was over before the kernel began.
    pub(super) fn is_over(&self) -> bool {
        let place = self.0[32] as usize + (2 * BLOCKS + PUSHES) * 8;
        let place = ptr::with_exposed_provenance_mut::<u64>(place);
        // SAFETY: the counts exist, and one word more.
        unsafe { place.read_volatile() != 0 }
    }

    pub(super) fn rank(&self) -> usize {
        self.half(68) as usize
    }

    pub(super) fn ranks(&self) -> usize {
        self.half(69) as usize
    }

    pub(super) fn count(&self) -> usize {
        self.half(70) as usize
    }

    pub(super) fn groups(&self) -> usize {
        self.half(71) as usize
    }

    pub(super) fn reduction(&self) -> u32 {
        self.half(72)
    }

    pub(super) fn divisor(&self) -> u32 {
        self.half(73)
    }

    pub(super) fn start(&self, op: usize) -> usize {
        self.half(74 + op) as usize
    }

    pub(super) fn op(&self, op: usize) -> Op {
        let [source, target, rest] = [0, 1, 2].map(|at| self.0[85 + 3 * op + at]);
        let peer = |number: u64| (number != NOBODY).then_some(number as usize);
        let (bytes, to, from) = (rest as u32 as usize, rest >> 32 & 0xffff, rest >> 48);
        Op { source, target, bytes, to: peer(to), from: peer(from) }
    }

    /// The additional arguments of a norm.
    pub(super) fn norm(&self) -> Norm {
        let [weight, sizes, rest] = [0, 1, 2].map(|at| self.0[373 + at]);
        let (width, rows) = (sizes as u32 as usize, (sizes >> 32) as usize);
        let (parts, epsilon) = (rest as u32 as usize, f32::from_bits((rest >> 32) as u32));
        Norm { weight, width, rows, parts, epsilon }
    }

    /// All ranks but this one.
    pub(super) fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank();
        (0..self.ranks()).filter(move |peer| *peer != rank)
    }
}

impl Op {
    /// The part from this byte on.
    pub(super) fn part(self, at: usize, bytes: usize) -> Self {
        let (source, target) = (self.source + at as u64, self.target + at as u64);
        Self { source, target, bytes, ..self }
    }

    /// Likewise, read from elsewhere.
    pub(super) fn reading(self, source: u64) -> Self {
        Self { source, ..self }
    }

    /// The line at a byte, with zeros past the end.
    pub(super) fn load(&self, at: usize) -> u64 {
        self.bits(self.source, at)
    }

    /// The line that was stored there.
    pub(super) fn stored(&self, at: usize) -> u64 {
        self.bits(self.target, at)
    }

    fn bits(&self, memory: u64, at: usize) -> u64 {
        let (mut line, there) = ([0_u8; 8], self.bytes.saturating_sub(at).min(8));
        if there > 0 {
            let from = ptr::with_exposed_provenance::<u8>(memory as usize + at);
            // SAFETY: by the promise of its launch, the operation has this many bytes there.
            unsafe { ptr::copy_nonoverlapping(from, line.as_mut_ptr(), there) };
        }
        u64::from_ne_bytes(line)
    }

    pub(super) fn store(&self, at: usize, bits: u64) {
        let there = self.bytes.saturating_sub(at).min(8);
        if there > 0 {
            let to = ptr::with_exposed_provenance_mut::<u8>(self.target as usize + at);
            // SAFETY: as in `bits`.
            unsafe { ptr::copy_nonoverlapping(bits.to_ne_bytes().as_ptr(), to, there) };
        }
    }
}

impl Block<'_> {
    fn word(&self, address: u64) -> &AtomicU64 {
        let place = ptr::with_exposed_provenance_mut::<u64>(address as usize);
        // SAFETY: it is a word of the ranks' memory for kernels, which only they use, and only
        // atomically.
        unsafe { AtomicU64::from_ptr(place) }
    }

    fn staging(&self, at: usize) -> u64 {
        self.arguments.0[at]
    }

    fn pushed(&self, at: usize) -> u64 {
        self.staging(at) + (BLOCKS * 6 * BATCH * self.arguments.ranks() * THREADS * 16) as u64
    }

    pub(super) fn slot(&self, at: usize, number: usize, from: usize, thread: usize) -> u64 {
        let of = (self.block * 6 * BATCH + number) * self.arguments.ranks() + from;
        self.staging(at) + ((of * THREADS + thread) * 16) as u64
    }

    pub(super) fn pair(&self, at: usize, number: usize, from: usize, thread: usize) -> u64 {
        let of = (self.block * 2 * BATCH + number) * self.arguments.ranks() + from;
        self.pushed(at) + ((of * THREADS + thread) * 16) as u64
    }

    pub(super) fn flag(&self, at: usize, from: usize, first: usize) -> u64 {
        let ranks = self.arguments.ranks();
        let pairs = PUSHES * 2 * BATCH * THREADS * 16 * ranks;
        self.pushed(at) + (pairs + ((self.block + first) * ranks + from) * 8) as u64
    }

    /// How many batches this block has run: of lines, of `exchange`, of `push`.
    pub(super) fn batches(&self, of: usize) -> u64 {
        self.count(of).load(Relaxed)
    }

    pub(super) fn set_batches(&self, of: usize, batches: u64) {
        self.count(of).store(batches, Relaxed);
    }

    fn count(&self, of: usize) -> &AtomicU64 {
        self.word(self.arguments.0[32] + ((of * BLOCKS + self.block) * 8) as u64)
    }

    /// How many rows this block has normed together with others.
    pub(super) fn norms(&self) -> u64 {
        self.norms_of(self.block).load(Relaxed)
    }

    /// Sets the count, also for all blocks that the next launch may have in addition to this one's.
    pub(super) fn set_norms(&self, norms: u64) {
        let all = (self.block..PUSHES).step_by(self.blocks);
        all.for_each(|block| self.norms_of(block).store(norms, Relaxed));
    }

    fn norms_of(&self, block: usize) -> &AtomicU64 {
        self.word(self.arguments.0[32] + ((NORMS + block) * 8) as u64)
    }

    /// The place where a block of this GPU stores its share of a row's sum.
    pub(super) fn share(&self, block: usize, norm: u64) -> u64 {
        let line = (norm as usize & 1) * PUSHES + block;
        self.arguments.0[32] + ((NORMS + PUSHES) * 8 + line * 16) as u64
    }

    pub(super) fn put(&self, slot: u64, data: u64, batch: u64) {
        self.word(slot).store(data, Relaxed);
        self.word(slot + 8).store(batch, Release);
    }

    pub(super) fn take(&self, slot: u64, batch: u64) -> u64 {
        let (mut turns, mut late) = (0, None);
        loop {
            let flag = self.word(slot + 8).load(Acquire);
            if flag == batch {
                return self.word(slot).load(Relaxed);
            }
            // A rank whose communicator is over proceeds without the others, which learn of it
            // soon.
            if flag > batch && *late.get_or_insert_with(Instant::now) + SOON < Instant::now() {
                eprintln!("a slot of batch {batch} has what was sent in batch {flag}");
                std::process::abort();
            }
            if self.arguments.is_stopped() {
                return 0;
            }
            wait(&mut turns);
        }
    }

    pub(super) fn put_pair(&self, place: u64, [low, high]: [u64; 2]) {
        self.word(place).store(low, Relaxed);
        self.word(place + 8).store(high, Relaxed);
    }

    pub(super) fn take_pair(&self, place: u64) -> [u64; 2] {
        [self.word(place).load(Relaxed), self.word(place + 8).load(Relaxed)]
    }

    pub(super) fn say(&self, flag: u64, batch: u64) {
        self.word(flag).store(batch, Release);
    }

    pub(super) fn hear(&self, flag: u64, batch: u64) {
        let mut turns = 0;
        while self.word(flag).load(Acquire) < batch && !self.arguments.is_stopped() {
            wait(&mut turns);
        }
    }
}

/// Waits briefly, then longer, as the other ranks need the processors too.
fn wait(turns: &mut u32) {
    *turns += 1;
    if *turns < 100 { hint::spin_loop() } else { thread::yield_now() }
}
