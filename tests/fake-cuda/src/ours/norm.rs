//! Rows that are summed and normed: the blocks of a row first sum their shares of it, then norm
//! them.

use super::memory::{BATCH, Block, Norm, Op, THREADS};

/// One block's share of a row.
struct Share<'a> {
    block: &'a Block<'a>,
    op: Op,
    /// Bytes of a line.
    size: usize,
    first: usize,
    past: usize,
}

/// Runs `rms_norm` or `push_rms_norm`.
pub(super) fn run(name: &str, blocks: &[Block<'_>]) {
    let Some(any) = blocks.first() else { return };
    let (norm, all) = (any.arguments.norm(), any.arguments.op(0));
    let (bytes, teams) = (norm.width * any.element.size(), blocks.len() / norm.parts);
    let size = if name == "rms_norm" { 8 } else { 16 };
    let groups = bytes.div_ceil(32 * size);
    let lines = groups.div_ceil(norm.parts) * 32;
    let before = any.norms();
    for (round, row) in (0..norm.rows).step_by(teams).enumerate() {
        let shares: Vec<_> = blocks
            .iter()
            .map(|block| (block, row + block.block / norm.parts))
            .filter(|(_, row)| *row < norm.rows)
            .map(|(block, row)| {
                let first = block.block % norm.parts * lines;
                let past = (first + lines).min(groups * 32);
                Share { block, op: all.part(row * bytes, bytes), size, first, past }
            })
            .collect();
        let turn = before + round as u64 + 1;
        for share in &shares {
            let squares = if size == 8 { share.sum() } else { share.sum_pairs() };
            share.block.put(share.block.share(share.block.block, turn), squares.to_bits(), turn);
        }
        shares.iter().for_each(|share| share.norm(&norm, turn));
    }
    let rounds = norm.rows.div_ceil(teams) as u64;
    for block in blocks {
        assert_eq!(block.norms(), before, "all blocks have normed as many rows");
        block.set_norms(before + rounds);
    }
}

impl Share<'_> {
    /// The lines of a batch: the index among the thread's lines, the thread, and the line.
    fn lines(&self, base: usize) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let past = self.past;
        let line = move |k: usize| {
            (0..THREADS).map(move |thread| (k, thread, base + k * THREADS + thread))
        };
        (0..BATCH).flat_map(line).filter(move |(.., line)| *line < past)
    }

    /// Sums the ranks' lines; returns the sum of their squares.
    fn sum(&self) -> f64 {
        let (block, mut square) = (self.block, 0.0);
        for base in (self.first..self.past).step_by(THREADS * BATCH) {
            let batch = block.batches(0) + 1;
            let half = (batch as usize & 1) * 2 * BATCH;
            let mut own = vec![0; BATCH * THREADS];
            for (k, thread, line) in self.lines(base) {
                own[k * THREADS + thread] = self.op.load(line * 8);
                block.tell(half + k, thread, own[k * THREADS + thread], batch);
            }
            for (k, thread, line) in self.lines(base) {
                let sum = block.reduced(half + k, thread, own[k * THREADS + thread], batch, 0);
                square += sum.squares();
                self.op.store(line * 8, block.element.end(&sum, 1));
            }
            block.set_batches(0, batch);
        }
        square
    }

    /// Likewise without flags.
    fn sum_pairs(&self) -> f64 {
        let (block, mut square) = (self.block, 0.0);
        for base in (self.first..self.past).step_by(THREADS * BATCH) {
            let batch = block.batches(2) + 1;
            let half = (batch as usize & 1) * BATCH;
            let mut own = vec![[0; 2]; BATCH * THREADS];
            for (k, thread, line) in self.lines(base) {
                let pair = [self.op.load(line * 16), self.op.load(line * 16 + 8)];
                own[k * THREADS + thread] = pair;
                block.tell_pair(half + k, thread, pair);
            }
            block.meet(batch);
            for (k, thread, line) in self.lines(base) {
                let own = own[k * THREADS + thread];
                let sums = block.reduced_pair(half + k, thread, own, 0);
                for (sum, at) in sums.iter().zip([line * 16, line * 16 + 8]) {
                    square += sum.squares();
                    self.op.store(at, block.element.end(sum, 1));
                }
            }
            block.set_batches(2, batch);
        }
        square
    }

    /// Norms the summed lines, by the squares of all blocks of the row.
    fn norm(&self, norm: &Norm, turn: u64) {
        let block = self.block;
        let first = block.block / norm.parts * norm.parts;
        let part = |part| f64::from_bits(block.take(block.share(first + part, turn), turn));
        let squares: f64 = (0..norm.parts).map(part).sum();
        let scale = 1.0 / (squares / norm.width as f64 + f64::from(norm.epsilon)).sqrt();
        let lines = self.first * self.size / 8..self.past * self.size / 8;
        block.element.scale(&self.op, lines, scale, norm.weight);
    }
}
