//! The kernels of typed-nccl itself (src/cuda/kernels/kernels.cu), whose PTX has instructions that
//! the double does not know. This is a port to Rust, block by block. In a batch all threads of a
//! block send, then all receive, for which the slots and their numbers are made. A slot that is
//! overwritten before it was read ends the process.

mod element;
mod memory;
mod norm;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use std::{env, thread};

use element::{Element, Sum};
use memory::{Arguments, BATCH, Block, Op, THREADS};

use crate::ptx::Kernel;

/// The size of their arguments in bytes.
const GIVEN: usize = 2984;

/// The kernels of a PTX text, if it is one of typed-nccl's.
pub(crate) fn kernels(text: &str) -> Option<Vec<Kernel>> {
    let (element, _) = text.strip_prefix("// Made of kernels.cu")?.split_once(".\n//")?;
    let element: u32 = element.rsplit_once("Element ")?.1.parse().ok()?;
    let name = |part: &str| part.split_once('(').map(|(name, _)| name.trim().to_owned());
    let names = text.split(".entry").skip(1).filter_map(name);
    let kernel = |name: String| {
        let parameters = match &*name {
            "rms_norm" | "push_rms_norm" => vec![GIVEN, 24],
            _ => vec![GIVEN],
        };
        Kernel::ours(name, parameters, element)
    };
    Some(names.map(kernel).collect())
}

/// Runs the kernel of this name.
///
/// # Safety
///
/// The arguments are the kernel's. The memory that they refer to exists and nothing else uses it,
/// except for writes by other ranks' kernels.
pub(crate) unsafe fn run(name: &str, element: u32, blocks: u32, words: &[u64]) {
    let (element, arguments, blocks) = (Element(element), Arguments(words), blocks as usize);
    arguments.runs(blocks, true);
    if !arguments.is_over() {
        BEGUN.fetch_add(1, Relaxed);
        let block = |block| Block { arguments, element, block, blocks };
        match name {
            "one_shot" => (0..blocks).map(block).for_each(|block| block.one_shot()),
            "two_shot" => (0..blocks).map(block).for_each(|block| block.two_shot()),
            "exchange" => (0..blocks).map(block).for_each(|block| block.exchange()),
            "push" => (0..blocks).map(block).for_each(|block| block.push()),
            _ => norm::run(name, &(0..blocks).map(block).collect::<Vec<_>>()),
        }
        linger(&arguments);
    }
    arguments.runs(blocks, false);
}

/// How many kernels have begun on communicators that were not over.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn begun() -> usize {
    BEGUN.load(Relaxed)
}

/// How many milliseconds a kernel continues after it was told to end.
const LINGER: &str = "FAKE_CUDA_LINGER";

fn linger(arguments: &Arguments<'_>) {
    let asked = env::var(LINGER).ok().and_then(|asked| asked.parse().ok());
    if let Some(asked) = asked.filter(|_| arguments.is_stopped()) {
        thread::sleep(Duration::from_millis(asked));
    }
}

impl Block<'_> {
    /// Reduces the lines that all ranks sent, in rank order.
    fn reduced(&self, number: usize, thread: usize, own: u64, batch: u64, reduction: u32) -> Sum {
        let one = |rank| match rank == self.arguments.rank() {
            true => own,
            false => self.take(self.slot(self.arguments.rank(), number, rank, thread), batch),
        };
        let mut sum = self.element.begin(one(0));
        (1..self.arguments.ranks())
            .for_each(|rank| self.element.add(&mut sum, one(rank), reduction));
        sum
    }

    /// Sends a line to all peers.
    fn tell(&self, number: usize, thread: usize, data: u64, batch: u64) {
        for peer in self.arguments.peers() {
            self.put(self.slot(peer, number, self.arguments.rank(), thread), data, batch);
        }
    }

    /// Sends two lines to all peers, without a flag.
    fn tell_pair(&self, number: usize, thread: usize, pair: [u64; 2]) {
        for peer in self.arguments.peers() {
            self.put_pair(self.pair(peer, number, self.arguments.rank(), thread), pair);
        }
    }

    /// Reports that the data sent without flags is complete, and waits for the others' data.
    fn meet(&self, batch: u64) {
        let rank = self.arguments.rank();
        self.arguments.peers().for_each(|peer| self.say(self.flag(peer, rank, 32), batch));
        self.arguments.peers().for_each(|peer| self.hear(self.flag(rank, peer, 32), batch));
    }

    /// Reduces the data that all ranks sent without flags, in rank order.
    fn reduced_pair(
        &self,
        number: usize,
        thread: usize,
        own: [u64; 2],
        reduction: u32,
    ) -> [Sum; 2] {
        let rank = self.arguments.rank();
        let one = |from: usize| match from == rank {
            true => own,
            false => self.take_pair(self.pair(rank, number, from, thread)),
        };
        let mut sums = one(0).map(|bits| self.element.begin(bits));
        for from in 1..self.arguments.ranks() {
            for (sum, bits) in sums.iter_mut().zip(one(from)) {
                self.element.add(sum, bits, reduction);
            }
        }
        sums
    }

    /// The lines of this block in a batch: the index among the thread's lines, the thread, and the
    /// line.
    fn lines(
        &self,
        base: usize,
        past: usize,
    ) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let (block, stride) = (self.block, self.blocks * THREADS);
        let line =
            move |k: usize, thread| (k, thread, base + k * stride + block * THREADS + thread);
        let all = (0..BATCH).flat_map(move |k| (0..THREADS).map(move |thread| line(k, thread)));
        all.filter(move |(_, _, line)| *line < past)
    }

    /// The operation that contains a line, and the position in it.
    fn place(&self, line: usize) -> (Op, usize) {
        let count = self.arguments.count();
        let op = (0..count).rfind(|op| self.arguments.start(*op) <= line / 32).unwrap_or(0);
        (self.arguments.op(op), (line - self.arguments.start(op) * 32) * 8)
    }

    fn one_shot(&self) {
        let (mut batch, past) = (self.batches(0), self.arguments.groups() * 32);
        let stride = self.blocks * THREADS;
        for base in (0..).step_by(stride * BATCH) {
            if base + self.block * THREADS >= past {
                break;
            }
            batch += 1;
            let half = (batch as usize & 1) * 2 * BATCH;
            let mut own = vec![0; BATCH * THREADS];
            for (k, thread, line) in self.lines(base, past) {
                let (op, at) = self.place(line);
                own[k * THREADS + thread] = op.load(at);
                self.tell(half + k, thread, own[k * THREADS + thread], batch);
            }
            for (k, thread, line) in self.lines(base, past) {
                let (op, at) = self.place(line);
                let own = own[k * THREADS + thread];
                let sum = self.reduced(half + k, thread, own, batch, self.arguments.reduction());
                op.store(at, self.element.end(&sum, self.arguments.divisor()));
            }
        }
        self.set_batches(0, batch);
    }

    fn two_shot(&self) {
        let (mut batch, part) = (self.batches(0), self.arguments.groups() * 32);
        let (op, rank) = (self.arguments.op(0), self.arguments.rank());
        let at = |rank: usize, line: usize| (rank * part + line) * 8;
        let is_in = |rank, line| line < part && at(rank, line) < op.bytes;
        for base in (0..).step_by(self.blocks * THREADS * BATCH) {
            if base + self.block * THREADS >= part {
                break;
            }
            batch += 1;
            let half = (batch as usize & 1) * 2 * BATCH;
            for (k, thread, line) in self.lines(base, part) {
                for to in self.arguments.peers().filter(|to| is_in(*to, line)) {
                    self.put(self.slot(to, half + k, rank, thread), op.load(at(to, line)), batch);
                }
            }
            for (k, thread, line) in self.lines(base, part).filter(|(.., line)| is_in(rank, *line))
            {
                let own = op.load(at(rank, line));
                let sum = self.reduced(half + k, thread, own, batch, self.arguments.reduction());
                let result = self.element.end(&sum, self.arguments.divisor());
                op.store(at(rank, line), result);
                self.tell(half + BATCH + k, thread, result, batch);
            }
            for (k, thread, line) in self.lines(base, part) {
                for from in self.arguments.peers().filter(|from| is_in(*from, line)) {
                    let data = self.take(self.slot(rank, half + BATCH + k, from, thread), batch);
                    op.store(at(from, line), data);
                }
            }
        }
        self.set_batches(0, batch);
    }

    fn exchange(&self) {
        let (mut batch, past) = (self.batches(1), self.arguments.groups() * 32);
        let rank = self.arguments.rank();
        for base in (0..past).step_by(self.blocks * THREADS * BATCH) {
            batch += 1;
            let half = 4 * BATCH + (batch as usize & 1) * BATCH;
            if batch > 2 {
                self.arguments
                    .peers()
                    .for_each(|peer| self.hear(self.flag(rank, peer, 0), batch - 2));
            }
            let mut own = vec![0; BATCH * THREADS];
            for (k, thread, line) in self.lines(base, past) {
                let (op, at) = self.place(line);
                let Some(to) = op.to else { continue };
                own[k * THREADS + thread] = op.load(at);
                if to != rank {
                    let slot = self.slot(to, half + k, rank, thread);
                    self.put(slot, own[k * THREADS + thread], batch);
                }
            }
            for (k, thread, line) in self.lines(base, past) {
                let (op, at) = self.place(line);
                let Some(from) = op.from else { continue };
                let data = match from == rank {
                    true => own[k * THREADS + thread],
                    false => self.take(self.slot(rank, half + k, from, thread), batch),
                };
                op.store(at, data);
            }
            self.arguments.peers().for_each(|peer| self.say(self.flag(peer, rank, 0), batch));
        }
        self.set_batches(1, batch);
    }

    fn push(&self) {
        let (mut batch, op) = (self.batches(2), self.arguments.op(0));
        let past = op.bytes.div_ceil(16);
        for base in (0..past).step_by(self.blocks * THREADS * BATCH) {
            batch += 1;
            let half = (batch as usize & 1) * BATCH;
            let mut own = vec![[0; 2]; BATCH * THREADS];
            for (k, thread, line) in self.lines(base, past) {
                let pair = [op.load(line * 16), op.load(line * 16 + 8)];
                own[k * THREADS + thread] = pair;
                self.tell_pair(half + k, thread, pair);
            }
            self.meet(batch);
            for (k, thread, line) in self.lines(base, past) {
                let own = own[k * THREADS + thread];
                let sums = self.reduced_pair(half + k, thread, own, self.arguments.reduction());
                for (sum, at) in sums.iter().zip([line * 16, line * 16 + 8]) {
                    op.store(at, self.element.end(sum, self.arguments.divisor()));
                }
            }
        }
        self.set_batches(2, batch);
    }
}
