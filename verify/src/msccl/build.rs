//! From the runtime's instructions to what they do: connections, flags, cells.

use std::collections::HashMap;

use typed_nccl_plan::ir::Location;
use typed_nccl_plan::verdict::{Check, Line, Problem, ProblemKind};

use super::transfers::{COUNT, Chunks, Kind, Transfer};
use super::{Gpu, Tb};
use crate::cells::Cells;
use crate::limits;
use crate::program::{Act, Block, By, Fifo, Place, Program, Step};
use crate::unreadable::Unreadable;

/// Adds the ranks' blocks to a program that has its cells.
pub(super) fn build(
    mut program: Program,
    slots: u32,
    gpus: &[Gpu],
    at: Location,
) -> Result<Program, Unreadable> {
    let count: usize = gpus.iter().map(|gpu| gpu.blocks.len() + 1).sum();
    if count > limits::LINES {
        return Err(Unreadable { at, ..Unreadable::too_large("thread blocks", limits::LINES) });
    }
    let mut builder = Builder { slots, fifos: HashMap::new(), program: &mut program, acts: 0 };
    for (rank, gpu) in (0..).zip(gpus) {
        builder.declare(rank, gpu);
    }
    for (rank, gpu) in (0..).zip(gpus) {
        builder.rank(rank, gpu);
        if builder.acts > limits::ACTS {
            return Err(Unreadable { at, ..Unreadable::too_large("steps", limits::ACTS) });
        }
    }
    Ok(program)
}

struct Builder<'a> {
    slots: u32,
    /// By channel, sender and receiver.
    fifos: HashMap<(u32, u32, u32), u32>,
    program: &'a mut Program,
    acts: usize,
}

impl Builder<'_> {
    fn fifo(&mut self, channel: u32, from: u32, to: u32) -> u32 {
        let (slots, fifos) = (self.slots, &mut self.program.fifos);
        *self.fifos.entry((channel, from, to)).or_insert_with(|| {
            fifos.push(Fifo { from, to, channel, slots });
            (fifos.len() - 1) as u32
        })
    }

    /// A block loads the state of both its connections when it begins and stores it when it ends,
    /// even of one that it does not use.
    fn declare(&mut self, rank: u32, gpu: &Gpu) {
        let mut users: HashMap<(u32, u32, bool), (u32, Location)> = HashMap::new();
        for (&id, tb) in &gpu.blocks {
            let ends = [(tb.send, true), (tb.receive, false)];
            for (peer, sends) in ends.into_iter().filter_map(|(peer, is)| Some((peer?, is))) {
                match users.get(&(tb.channel, peer, sends)) {
                    None => {
                        users.insert((tb.channel, peer, sends), (id, tb.at));
                    }
                    Some(&first) => self.shared(rank, (peer, sends), first, (id, tb)),
                }
            }
        }
    }

    fn shared(
        &mut self,
        rank: u32,
        (peer, sends): (u32, bool),
        (first, first_at): (u32, Location),
        (second, tb): (u32, &Tb),
    ) {
        let told = |problem: &&Problem| problem.kind == ProblemKind::Broken(Check::Agreement);
        if self.program.problems.iter().filter(told).count() >= limits::PROBLEMS {
            return;
        }
        let (towards, end) = if sends { ("to", "send") } else { ("from", "recv") };
        let line = |id: u32, at: Location| Line {
            rank: Some(rank as usize),
            other: Some(peer as usize),
            at,
            text: format!("block {id} has `{end}=\"{peer}\"` and `chan=\"{}\"`", tb.channel),
        };
        self.program.problems.push(Problem {
            kind: ProblemKind::Broken(Check::Agreement),
            title: format!(
                "blocks {first} and {second} of rank {rank} share their connection {towards} rank \
                 {peer}: each counts its messages for itself"
            ),
            at: tb.at,
            sizes: None,
            story: vec![line(first, first_at), line(second, tb.at)],
            help: vec!["give one of them a channel of its own, at both ends".to_owned()],
        });
    }

    fn rank(&mut self, rank: u32, gpu: &Gpu) {
        let base = self.program.blocks.len() as u32;
        let index: HashMap<i64, u32> =
            gpu.blocks.keys().zip(base..).map(|(&id, at)| (i64::from(id), at)).collect();
        for (&id, tb) in &gpu.blocks {
            let mut steps = Vec::with_capacity(tb.transfers.all.len());
            for transfer in &tb.transfers.all {
                let mut acts = Vec::new();
                for awaited in &transfer.awaited {
                    let block = index.get(&awaited.block).copied();
                    acts.push(Act::AwaitFlag { block, id: awaited.block, number: awaited.step });
                }
                self.moves((rank, id), tb, transfer, &mut acts);
                if transfer.has_flag {
                    acts.push(Act::Flag(transfer.number));
                }
                self.acts += acts.len();
                let (at, name) = (transfer.at, transfer.name.clone());
                steps.push(Step { at, number: transfer.number, name, acts });
            }
            self.program.blocks.push(Block { rank, id, steps });
        }
    }

    /// One move for each chunk.
    fn moves(
        &mut self,
        (rank, block): (u32, u32),
        tb: &Tb,
        transfer: &Transfer,
        acts: &mut Vec<Act>,
    ) {
        let kind = transfer.kind;
        let out = match (kind.sends(), tb.send) {
            (false, _) => None,
            (true, Some(peer)) => Some(self.fifo(tb.channel, rank, peer)),
            (true, None) => return self.no_peer((rank, block), transfer, "send"),
        };
        let input = match (kind.receives(), tb.receive) {
            (false, _) => None,
            (true, Some(peer)) => Some(self.fifo(tb.channel, peer, rank)),
            (true, None) => return self.no_peer((rank, block), transfer, "recv"),
        };
        for chunk in 0..transfer.count.min(COUNT) {
            let cells = &self.program.cells;
            let read = kind.reads().then_some(transfer.source);
            let also = (kind == Kind::Reduce).then_some(transfer.target);
            let more = transfer.more.iter().map(|&at| Chunks { at, ..transfer.source });
            let sources: Option<Vec<Place>> = (also.into_iter().chain(read).chain(more))
                .map(|chunks| place(cells, rank, chunks, chunk))
                .collect();
            let target = match kind.writes() {
                true => place(cells, rank, transfer.target, chunk).map(Some),
                false => Some(None),
            };
            let (Some(mut from), Some(target)) = (sources, target) else {
                return self.outside((rank, block), transfer);
            };
            from.extend(input.map(Place::Message));
            let to = target.into_iter().chain(out.map(Place::Message)).collect();
            acts.push(Act::Move { by: By::Block, from, to });
        }
    }

    fn no_peer(&mut self, block: (u32, u32), transfer: &Transfer, end: &str) {
        let title = format!(
            "`{}` in block {} of rank {}, which has no `{end}`",
            transfer.name, block.1, block.0
        );
        let help = format!("name the other rank in the block's `{end}`");
        self.fatal(Check::Matching, transfer.at, title, help);
    }

    fn outside(&mut self, (rank, block): (u32, u32), transfer: &Transfer) {
        let title = format!(
            "step {} of block {block} of rank {rank} is outside of its buffers",
            transfer.number
        );
        let sizes = self.program.cells.sizes(rank);
        let help = format!(
            "rank {rank} has {} chunks of input, {} of output and {} of scratch",
            sizes.input, sizes.output, sizes.scratch
        );
        self.fatal(Check::Bounds, transfer.at, title, help);
    }

    fn fatal(&mut self, check: Check, at: Location, title: String, help: String) {
        self.program.is_fatal = true;
        if self.program.problems.len() < 2 * limits::PROBLEMS {
            let (kind, story) = (ProblemKind::Broken(check), Vec::new());
            let help = vec![help];
            self.program.problems.push(Problem { kind, title, at, sizes: None, story, help });
        }
    }
}

fn place(cells: &Cells, rank: u32, chunks: Chunks, more: u32) -> Option<Place> {
    let at = u32::try_from(chunks.at).ok()?.checked_add(more)?;
    let cell = cells.cell(rank, chunks.buffer, at)?;
    Some(Place::Cell { cell, stride: 0 })
}
