//! A thread block's steps, as MSCCL's runtime joins and numbers them.
//!
//! The runtime makes no instruction of a `nop`: it adds its dependency to the next step. Reductions
//! that follow each other into one chunk, of which the later ones wait for nothing, are one
//! instruction. The interpreter counts both again, so that numbers in `deps` are those of the file.

use typed_nccl_plan::ir::Location;

use super::attributes::Element;
use crate::cells::Buffer;
use crate::unreadable::Unreadable;

/// Steps of a thread block, by which the runtime's tables are bounded.
const STEPS: u32 = 255;

/// What the runtime's `cnt` is less than.
pub(super) const COUNT: u32 = 72;

/// Reductions of one instruction that the interpreter has room for.
const REDUCTIONS: usize = 16;

/// What an instruction does with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    Receive,
    ReceiveCopySend,
    ReceiveReduceSend,
    ReceiveReduceCopy,
    ReceiveReduceCopySend,
    Copy,
    Reduce,
}

/// A range of chunks of one of the rank's own buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    pub(super) buffer: Buffer,
    /// Negative where the instruction has none.
    pub(super) at: i64,
}

/// A wait for another block of the rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    pub(super) block: i64,
    pub(super) step: u32,
}

/// One instruction of the interpreter.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) at: Location,
    /// The interpreter's number for it, which its flag is set to.
    pub(super) number: u32,
    /// What the file calls it.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) source: Chunks,
    pub(super) target: Chunks,
    pub(super) count: u32,
    pub(super) awaited: Vec<Awaited>,
    /// Of a reduction: the sources after the first.
    pub(super) more: Vec<i64>,
    pub(super) has_flag: bool,
}

/// A thread block's instructions, and what the runtime does not accept of them.
#[derive(Default)]
pub(super) struct Transfers {
    pub(super) all: Vec<Transfer>,
    pub(super) refused: Vec<(Location, String)>,
    waiting: Vec<Awaited>,
    /// Whether the last reduction goes on.
    open: bool,
    reductions: usize,
    step: u32,
}

impl Kind {
    pub(super) fn sends(self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::ReceiveCopySend
                | Self::ReceiveReduceSend
                | Self::ReceiveReduceCopySend
        )
    }

    pub(super) fn receives(self) -> bool {
        !matches!(self, Self::Send | Self::Copy | Self::Reduce)
    }

    pub(super) fn reads(self) -> bool {
        !matches!(self, Self::Receive | Self::ReceiveCopySend)
    }

    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::Send | Self::ReceiveReduceSend)
    }

    /// The kind that the file calls so; none for `nop`.
    fn named(step: Element<'_, '_>) -> Result<Option<Self>, Unreadable> {
        Ok(Some(match step.text("type")? {
            "s" => Self::Send,
            "r" => Self::Receive,
            "rcs" => Self::ReceiveCopySend,
            "rrs" => Self::ReceiveReduceSend,
            "rrc" => Self::ReceiveReduceCopy,
            "rrcs" => Self::ReceiveReduceCopySend,
            "cpy" => Self::Copy,
            "re" => Self::Reduce,
            "nop" => return Ok(None),
            other => {
                let wanted = "one of s, r, rcs, rrs, rrc, rrcs, cpy, re and nop";
                return Err(step.wrong("type", other, wanted));
            }
        }))
    }
}

impl Transfers {
    /// The instructions of a `<tb>`.
    pub(super) fn read(block: Element<'_, '_>) -> Result<Self, Unreadable> {
        let mut transfers = Self::default();
        for step in block.children("step") {
            transfers.add(step)?;
        }
        transfers.step = 0;
        for transfer in &mut transfers.all {
            let nops = transfer.awaited.len().saturating_sub(1);
            transfers.step += (nops + transfer.more.len()) as u32;
            transfer.number = transfers.step;
            transfers.step += 1;
        }
        for transfer in &transfers.all {
            if transfer.more.len() + 1 > REDUCTIONS {
                let many = transfer.more.len() + 1;
                let title = format!(
                    "{many} reductions into one chunk are one instruction, for which the \
                     interpreter has {REDUCTIONS} places"
                );
                transfers.refused.push((transfer.at, title));
            }
        }
        Ok(transfers)
    }

    fn add(&mut self, step: Element<'_, '_>) -> Result<(), Unreadable> {
        let number = step.index("s", i32::MAX as u32)?;
        let kind = Kind::named(step)?;
        let (source, target) = (chunks(step, "src")?, chunks(step, "dst")?);
        let count = step.index("cnt", u32::from(u16::MAX))?;
        let block = step.number("depid", -1..=i64::from(i16::MAX))?;
        let awaited = step.number("deps", -1..=i64::from(i32::MAX))?;
        let has_flag = step.number("hasdep", 0..=1)? == 1;
        if number > STEPS {
            let title = format!("step {number}: MSCCL has {} steps in a block", STEPS + 1);
            self.refused.push((step.at(), title));
        }
        if block >= 0 {
            // A negative step is one that every block has come to.
            self.waiting.push(Awaited { block, step: awaited.max(0) as u32 });
        }
        let Some(kind) = kind else { return Ok(()) };
        if count == 0 || count >= COUNT {
            let title = format!("`cnt` is {count}: MSCCL takes 1 to {}", COUNT - 1);
            self.refused.push((step.at(), title));
        }
        if kind == Kind::Reduce && self.continues(source, target, block) {
            if let Some(last) = self.all.last_mut() {
                last.more.push(source.at);
                last.has_flag = has_flag;
                // The runtime keeps the last one's for all of them.
                last.count = count;
            }
            self.reductions += 1;
            self.open = !has_flag && self.reductions != REDUCTIONS;
            return Ok(());
        }
        if block < 0 && !self.waiting.is_empty() {
            let title = "a `nop` waits for a step, and the instruction after it for none: MSCCL \
                         does not load that";
            self.refused.push((step.at(), title.to_owned()));
        }
        self.all.push(Transfer {
            at: step.at(),
            number: 0,
            name: step.text("type")?.to_owned(),
            kind,
            source,
            target,
            count,
            awaited: std::mem::take(&mut self.waiting),
            more: Vec::new(),
            has_flag,
        });
        if kind == Kind::Reduce {
            self.reductions += 1;
        }
        self.open = kind == Kind::Reduce && !has_flag && self.reductions != REDUCTIONS;
        Ok(())
    }

    /// Whether the runtime makes a reduction part of the one before it.
    fn continues(&self, source: Chunks, target: Chunks, block: i64) -> bool {
        self.open
            && block < 0
            && self
                .all
                .last()
                .is_some_and(|last| last.target == target && last.source.buffer == source.buffer)
    }
}

fn chunks(step: Element<'_, '_>, end: &'static str) -> Result<Chunks, Unreadable> {
    let (name, offset) = if end == "src" { ("srcbuf", "srcoff") } else { ("dstbuf", "dstoff") };
    let buffer = match step.text(name)? {
        "i" => Buffer::Input,
        "o" => Buffer::Output,
        "s" => Buffer::Scratch,
        other => return Err(step.wrong(name, other, "one of i, o and s")),
    };
    Ok(Chunks { buffer, at: step.number(offset, -1..=i64::from(i32::MAX))? })
}
