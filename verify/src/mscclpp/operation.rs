//! What each operation of the executor does.

use serde_json::value::RawValue;
use typed_nccl_plan::verdict::{Check, Problem, ProblemKind};

use super::channels::{Channel, Channels};
use super::ranges::{As, Lacks, Part};
use super::schema::{ChannelType, Gpu, Op, Range, Threadblock};
use super::{Cut, Packets, Source};
use crate::limits;
use crate::program::{Act, By, Place, Program, Step};
use crate::refusal::Refusals;
use crate::unreadable::Unreadable;

/// Barriers of a rank.
pub(super) const BARRIERS: u32 = 16;

/// Operations of a block, those in pipelines included.
const OPERATIONS: usize = 64;

/// Channels of a block of one type.
const CHANNELS: usize = 16;

/// Channels of an operation.
const OPERATION_CHANNELS: usize = 8;

/// Sources, or targets, of an operation.
const RANGES: usize = 10;

/// Reads the operations of a block.
pub(super) struct Reader<'a, 'b> {
    pub(super) source: &'a Source<'b>,
    pub(super) cut: &'a Cut,
    pub(super) rank: u32,
    pub(super) gpu: &'a Gpu<'b>,
    pub(super) block: &'a Threadblock<'b>,
    /// Where the rank's semaphores and barriers begin.
    pub(super) begins: (u32, u32),
    pub(super) channels: &'a mut Channels,
    pub(super) program: &'a mut Program,
    pub(super) refused: &'a mut Refusals,
    pub(super) packets: &'a mut Packets,
    pub(super) steps: Vec<Step>,
    pub(super) acts: usize,
}

impl<'b> Reader<'_, 'b> {
    pub(super) fn read(&mut self) -> Result<(), Unreadable> {
        let block = self.block;
        let mut count = block.ops.len();
        for (number, &raw) in (0..).zip(&block.ops) {
            let op = self.source.op(raw)?;
            if op.name == "pipeline" {
                count += op.ops.len();
                self.pipeline(number, raw, &op)?;
            } else {
                self.add((number, raw), &op, Part { turn: None })?;
            }
        }
        let at = block.ops.first().map(|raw| self.source.at(raw)).unwrap_or_default();
        let (rank, id) = (self.rank, block.id);
        if count > OPERATIONS {
            let title = format!(
                "block {id} of rank {rank} has {count} operations, and the executor takes \
                 {OPERATIONS}"
            );
            self.refused.add(at, title);
        }
        for list in &block.channels {
            if list.channel_ids.len() > CHANNELS {
                let title = format!(
                    "block {id} of rank {rank} has {} channels of a type, and the executor takes \
                     {CHANNELS}",
                    list.channel_ids.len()
                );
                self.refused.add(at, title);
            }
        }
        Ok(())
    }

    /// The operations of a pipeline, turn after turn.
    fn pipeline(&mut self, number: u32, raw: &RawValue, op: &Op<'b>) -> Result<(), Unreadable> {
        let (Some(context), Some(each)) = (op.iter_context, self.cut.turns) else {
            let title = "`pipeline` has no `iter_context`".to_owned();
            self.refused.add(self.source.at(raw), title);
            return Ok(());
        };
        let turns = u64::from(context.num_chunks) * u64::from(each);
        if turns > limits::ACTS as u64 {
            return Err(Unreadable::too_large("turns of a pipeline", limits::ACTS));
        }
        let inner: Result<Vec<_>, _> =
            op.ops.iter().map(|&raw| Ok((raw, self.source.op(raw)?))).collect();
        let inner = inner?;
        for turn in 0..turns as u32 {
            for (raw, op) in &inner {
                self.add((number, raw), op, Part { turn: Some(turn) })?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        (number, raw): (u32, &RawValue),
        op: &Op<'_>,
        part: Part,
    ) -> Result<(), Unreadable> {
        let at = self.source.at(raw);
        self.compare(raw, op);
        let acts = match self.acts(op, part) {
            Ok(acts) => acts,
            Err(lacks) => {
                self.program.is_fatal = true;
                if self.program.problems.len() < limits::PROBLEMS {
                    let (rank, block) = (self.rank, self.block.id);
                    self.program.problems.push(Problem {
                        kind: ProblemKind::Broken(Check::Bounds),
                        title: format!(
                            "operation {number} ({}) of block {block} of rank {rank} {lacks}",
                            shown(&op.name)
                        ),
                        at,
                        sizes: None,
                        story: Vec::new(),
                        help: Vec::new(),
                    });
                }
                Vec::new()
            }
        };
        self.acts += acts.len() + 1;
        if self.acts > limits::ACTS {
            return Err(Unreadable::too_large("operations", limits::ACTS));
        }
        let name = match part.turn {
            Some(turn) => format!("{}, turn {turn}", shown(&op.name)),
            None => shown(&op.name),
        };
        self.steps.push(Step { at, number, name, acts });
        Ok(())
    }

    /// What the executor does otherwise than an operation says.
    fn compare(&mut self, raw: &RawValue, op: &Op<'_>) {
        let on_memory = op.channel_type == Some(ChannelType::Memory);
        let at_once =
            |ranges: &[Range]| ranges.windows(2).all(|two| two[0].buffer == two[1].buffer);
        let moved = op.src_buff.iter().zip(&op.dst_buff).any(|(src, dst)| src.index != dst.index);
        let told = match op.name.as_str() {
            "get" if moved => {
                "`get` with different indices: the executor exchanges the offsets of its source \
                 and its target"
            }
            "flush" if op.dst_buff.is_empty() => {
                "`flush` waits for nothing: the executor counts its channels by its targets, of \
                 which it has none"
            }
            "pws" | "pwsf" if on_memory => {
                "the executor raises no signal with a put over a memory channel"
            }
            "put" | "ppkt" if on_memory && !at_once(&op.src_buff) => {
                "one put of several buffers: the executor takes all sources from the first one"
            }
            _ if op.channel_ids.len() > OPERATION_CHANNELS => {
                "an operation has more channels than the 8 that the executor takes"
            }
            _ if op.src_buff.len().max(op.dst_buff.len()) > RANGES => {
                "an operation has more sources or targets than the 10 that the executor takes"
            }
            _ => return,
        };
        self.refused.add_once(self.source.at(raw), told);
    }

    fn acts(&mut self, op: &Op<'_>, part: Part) -> Result<Vec<Act>, Lacks> {
        let (src, dst) = (&op.src_buff, &op.dst_buff);
        match op.name.as_str() {
            "nop" => Ok(vec![Act::Sync]),
            "barrier" if op.num_threadblocks <= 1 => Ok(vec![Act::Sync]),
            "barrier" if op.barrier_id >= BARRIERS => Err(Lacks::Name),
            "barrier" => {
                let barrier = self.begins.1 + op.barrier_id;
                Ok(vec![Act::Barrier { barrier, blocks: op.num_threadblocks }])
            }
            "sem_acquire" => self.semaphores(op, Act::Acquire),
            "sem_release" => self.semaphores(op, Act::Release),
            "signal" | "rlxsignal" => self.raise(op),
            "wait" | "rlxwait" => {
                let relaxed = op.name == "rlxwait";
                let each = |reader: &mut Self, channel| {
                    let rank = reader.rank;
                    let signal = reader.channels.signal(reader.program, rank, channel, false);
                    Act::Await { signal, relaxed }
                };
                self.each(op, each)
            }
            "flush" => self.each(op, |reader, channel| Act::Flush(reader.proxy(channel))),
            "copy" => self.local(op, (As::Plain, As::Plain), part),
            "cpkt" => self.local(op, (As::Plain, As::Packets), part),
            "upkt" => self.local(op, (As::Packets, As::Plain), part),
            "put" | "pws" | "pwsf" | "ppkt" => self.put(op, part),
            "get" => {
                let mut acts = Vec::new();
                for (src, dst) in pairs(src, dst)? {
                    let from = self.remote(op, Some(src), As::Plain, part)?;
                    let to = self.own(op, Some(dst), As::Plain, part)?;
                    moves(By::Block, &[from], &[to], &mut acts)?;
                }
                Ok(acts)
            }
            "rppkt" => self.forward(op, part),
            "re" | "res" => self.reduce(op, (As::Plain, 1), part),
            "rre" | "rres" => self.read_reduce(op, part),
            "repkt" | "respkt" => self.reduce(op, (As::Packets, 1), part),
            "recpkt" | "recspkt" => self.reduce(op, (As::Packets, 2), part),
            "gstore" | "gstorepkt" => {
                let kind = if op.name == "gstore" { As::Plain } else { As::Packets };
                let from = self.own(op, src.first(), kind, part)?;
                let to = self.switched(op, dst.first(), kind, part)?;
                let mut acts = Vec::new();
                moves(By::Block, &[from], &to, &mut acts)?;
                Ok(acts)
            }
            "glres" => {
                let from = self.switched(op, src.first(), As::Plain, part)?;
                let to = self.switched(op, dst.first(), As::Plain, part)?;
                let mut acts = Vec::new();
                moves(By::Block, &from, &to, &mut acts)?;
                Ok(acts)
            }
            other => {
                let title = format!("`{}` is no operation of the executor", shown(other));
                self.refused.add_once(Default::default(), &title);
                self.program.is_fatal = true;
                Ok(Vec::new())
            }
        }
    }

    /// The same for each of an operation's channels.
    fn each(
        &mut self,
        op: &Op<'_>,
        act: impl Fn(&mut Self, Channel) -> Act,
    ) -> Result<Vec<Act>, Lacks> {
        let kind = op.channel_type.unwrap_or(ChannelType::None);
        if !matches!(kind, ChannelType::Memory | ChannelType::Port) {
            return Err(Lacks::Name);
        }
        let mut acts = Vec::new();
        for &id in &op.channel_ids {
            let channel = self.channels.channel(self.rank, self.block, kind, id);
            acts.push(act(self, channel.ok_or(Lacks::Name)?));
        }
        Ok(acts)
    }

    fn proxy(&mut self, channel: Channel) -> u32 {
        self.channels.proxy(self.program, self.rank, channel)
    }

    fn raise(&mut self, op: &Op<'_>) -> Result<Vec<Act>, Lacks> {
        let relaxed = op.name == "rlxsignal";
        self.each(op, |reader, channel| {
            let rank = reader.rank;
            let signal = reader.channels.signal(reader.program, rank, channel, true);
            match channel.kind {
                ChannelType::Port => {
                    Act::Post { signal, by: By::Proxy(reader.proxy(channel)), relaxed: false }
                }
                _ => Act::Post { signal, by: By::Block, relaxed },
            }
        })
    }

    fn semaphores(&self, op: &Op<'_>, act: fn(u32) -> Act) -> Result<Vec<Act>, Lacks> {
        let count = self.gpu.semaphores.len() as u32;
        let each = |&id: &u32| match id < count {
            true => Ok(act(self.begins.0 + id)),
            false => Err(Lacks::Name),
        };
        op.semaphore_ids.iter().map(each).collect()
    }

    fn local(&mut self, op: &Op<'_>, kinds: (As, As), part: Part) -> Result<Vec<Act>, Lacks> {
        let from = self.own(op, op.src_buff.first(), kinds.0, part)?;
        let to = self.own(op, op.dst_buff.first(), kinds.1, part)?;
        let mut acts = Vec::new();
        moves(By::Block, &[from], &[to], &mut acts)?;
        Ok(acts)
    }

    fn put(&mut self, op: &Op<'_>, part: Part) -> Result<Vec<Act>, Lacks> {
        let mut acts = Vec::new();
        let by_port = op.channel_type == Some(ChannelType::Port);
        // A proxy moves packets as they are.
        let kinds = match op.name.as_str() {
            "ppkt" if by_port => (As::Packets, As::Packets),
            "ppkt" => (As::Plain, As::Packets),
            _ => (As::Plain, As::Plain),
        };
        for (at, (src, dst)) in pairs(&op.src_buff, &op.dst_buff)?.enumerate() {
            let from = self.own(op, Some(src), kinds.0, part)?;
            let to = self.remote(op, Some(dst), kinds.1, part)?;
            if !by_port {
                moves(By::Block, &[from], &[to], &mut acts)?;
                continue;
            }
            let id = *op.channel_ids.get(at).ok_or(Lacks::Operand)?;
            let channel = self.channels.channel(self.rank, self.block, ChannelType::Port, id);
            let channel = channel.ok_or(Lacks::Name)?;
            let proxy = self.proxy(channel);
            moves(By::Proxy(proxy), &[from], &[to], &mut acts)?;
            if matches!(op.name.as_str(), "pws" | "pwsf") {
                let rank = self.rank;
                let signal = self.channels.signal(self.program, rank, channel, true);
                acts.push(Act::Post { signal, by: By::Proxy(proxy), relaxed: false });
            }
            if op.name == "pwsf" {
                acts.push(Act::Flush(proxy));
            }
        }
        Ok(acts)
    }

    /// Packets go on to other ranks. A proxy does not look at their flags: the block does, first.
    fn forward(&mut self, op: &Op<'_>, part: Part) -> Result<Vec<Act>, Lacks> {
        let mut acts = Vec::new();
        let from = self.own(op, op.src_buff.first(), As::Packets, part)?;
        if op.channel_type == Some(ChannelType::Port) {
            moves(By::Block, std::slice::from_ref(&from), &[], &mut acts)?;
            acts.push(Act::Sync);
        }
        for (at, dst) in op.dst_buff.iter().enumerate() {
            let to = self.remote(op, Some(dst), As::Packets, part)?;
            let by = match op.channel_type {
                Some(ChannelType::Port) => {
                    let id = *op.channel_ids.get(at).ok_or(Lacks::Operand)?;
                    let channel =
                        self.channels.channel(self.rank, self.block, ChannelType::Port, id);
                    By::Proxy(self.proxy(channel.ok_or(Lacks::Name)?))
                }
                _ => By::Block,
            };
            moves(by, std::slice::from_ref(&from), &[to], &mut acts)?;
        }
        Ok(acts)
    }

    /// The sum of local chunks: the first one is plain, and so is the first target. The targets
    /// after `own` are other ranks'.
    fn reduce(
        &mut self,
        op: &Op<'_>,
        (kind, own): (As, usize),
        part: Part,
    ) -> Result<Vec<Act>, Lacks> {
        let mut from = vec![self.own(op, op.src_buff.first(), As::Plain, part)?];
        for range in op.src_buff.iter().skip(1) {
            from.push(self.own(op, Some(range), kind, part)?);
        }
        let mut to = Vec::new();
        for (at, range) in op.dst_buff.iter().enumerate() {
            to.push(match at {
                0 => self.own(op, Some(range), As::Plain, part)?,
                at if at < own => self.own(op, Some(range), kind, part)?,
                _ => self.remote(op, Some(range), kind, part)?,
            });
        }
        if to.len() < own {
            return Err(Lacks::Operand);
        }
        let mut acts = Vec::new();
        moves(By::Block, &from, &to, &mut acts)?;
        Ok(acts)
    }

    fn read_reduce(&mut self, op: &Op<'_>, part: Part) -> Result<Vec<Act>, Lacks> {
        let mut from = vec![self.own(op, op.src_buff.first(), As::Plain, part)?];
        for range in op.src_buff.iter().skip(1) {
            from.push(self.remote(op, Some(range), As::Plain, part)?);
        }
        let mut to = vec![self.own(op, op.dst_buff.first(), As::Plain, part)?];
        for range in op.dst_buff.iter().skip(1) {
            to.push(self.remote(op, Some(range), As::Plain, part)?);
        }
        let mut acts = Vec::new();
        moves(By::Block, &from, &to, &mut acts)?;
        Ok(acts)
    }
}

/// Sources and targets, one of each.
fn pairs<'a>(
    src: &'a [Range],
    dst: &'a [Range],
) -> Result<impl Iterator<Item = (&'a Range, &'a Range)>, Lacks> {
    if src.len() == dst.len() { Ok(src.iter().zip(dst)) } else { Err(Lacks::Operand) }
}

/// A move for each cell: of all sources to all targets.
fn moves(by: By, from: &[Vec<Place>], to: &[Vec<Place>], acts: &mut Vec<Act>) -> Result<(), Lacks> {
    let length = from.first().map_or(0, Vec::len);
    if from.iter().chain(to).any(|places| places.len() != length) {
        return Err(Lacks::Operand);
    }
    for at in 0..length {
        let of = |places: &[Vec<Place>]| places.iter().map(|places| places[at]).collect();
        acts.push(Act::Move { by, from: of(from), to: of(to) });
    }
    Ok(())
}

/// A name from a file, which may be long.
fn shown(name: &str) -> String {
    name.chars().take(40).collect()
}
