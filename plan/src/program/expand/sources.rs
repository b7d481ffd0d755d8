//! Expands assignments: their sources on this rank and on others.

use super::Walk;
use super::one_sided::declare_window;
use super::problems::OutOfBounds;
use crate::ir::{Around, CommunicatorId, LocalWork, MOST_REDUCED, Peer, Region, Source};
use crate::program::{NONE, Op, OpKind, Turns};

/// The sources of an assignment so far.
#[derive(Default)]
struct Sources {
    ops: Vec<Op>,
    /// Whether one was left out, past the end of an open axis.
    is_short: bool,
}

impl Walk<'_> {
    /// An assignment of a rank. Without sources it does nothing.
    pub(super) fn assigned(
        &mut self,
        rank: usize,
        this: &LocalWork<'_>,
    ) -> Result<(), OutOfBounds> {
        let [to] = this.writes else { return Ok(()) };
        let target = self.span_of((rank, rank), to, None)?;
        let mut sources = Sources::default();
        for source in this.of {
            self.source(rank, this, source, &source.around, &mut sources)?;
        }
        if sources.ops.len() > MOST_REDUCED {
            let title = format!(
                "this reduces {} regions on rank {rank}, and at most {MOST_REDUCED} are reduced at once",
                sources.ops.len()
            );
            let help = "reduce them in several statements, or exclude this case with `where`";
            return Err(OutOfBounds::new(title, help));
        }
        let keeps = |op: &Op| sources.is_short && op.kind == OpKind::Read && op.source == target;
        if sources.ops.is_empty() || matches!(&*sources.ops, [only] if keeps(only)) {
            return Ok(());
        }
        let part = sources.ops.len() as u16;
        for op in sources.ops {
            self.push(rank, op, this.place);
        }
        let op = self.op(OpKind::Write, CommunicatorId(0), this.place);
        self.push(rank, Op { part, target, ..op }, this.place);
        Ok(())
    }

    /// A source inside these loops and conditions.
    fn source(
        &mut self,
        rank: usize,
        this: &LocalWork<'_>,
        source: &Source,
        around: &[Around],
        all: &mut Sources,
    ) -> Result<(), OutOfBounds> {
        if !self.spend(1) {
            return Ok(());
        }
        match around.split_first() {
            Some((Around::When(condition), inner)) => match self.env(rank).holds(condition)? {
                true => self.source(rank, this, source, inner, all),
                false => Ok(()),
            },
            Some((Around::Each(each), inner)) => {
                let turns = Turns::of_each(each, &self.env(rank))?;
                let counter = each.counter.index();
                for value in turns.iter() {
                    self.counters[counter] = Some(value);
                    let done = self.source(rank, this, source, inner, all);
                    self.counters[counter] = None;
                    done?;
                    if self.stopped || all.ops.len() > MOST_REDUCED {
                        break;
                    }
                }
                Ok(())
            }
            None => self.region_of(rank, this, source, all),
        }
    }

    fn region_of(
        &mut self,
        rank: usize,
        this: &LocalWork<'_>,
        source: &Source,
        all: &mut Sources,
    ) -> Result<(), OutOfBounds> {
        let Source { region, rank: peer, .. } = source;
        let Some(owner) = self.owner(rank, peer)? else {
            all.is_short = true;
            return Ok(());
        };
        let span = self.span_of((rank, owner), region, None)?;
        let part = all.ops.len() as u16;
        // Memory orders what a rank reads of its own, also around a ring of one.
        let op = if owner == rank {
            let op = self.op(OpKind::Read, CommunicatorId(0), this.place);
            Op { part, source: span, ..op }
        } else {
            self.is_window(region)?;
            let shift = match peer {
                Peer::Rank(_) => NONE,
                Peer::Shift(_) => self.shift(rank, peer),
                Peer::Cases(_) => self.shift_of(rank, peer, NONE)?,
            };
            let op = self.op(OpKind::Get, CommunicatorId(0), this.place);
            Op { part, peer: owner as u32, shift, source: span, ..op }
        };
        all.ops.push(op);
        Ok(())
    }

    /// What is read of another rank is a window.
    fn is_window(&self, region: &Region) -> Result<(), OutOfBounds> {
        let buffer = &self.plan.buffers[region.buffer.index()];
        if buffer.window {
            return Ok(());
        }
        let title = format!("this reads `{}` of another rank, which is not a window", buffer.name);
        let declare = declare_window(buffer);
        let help = format!("declare {declare}: ranks read each other's registered memory");
        Err(OutOfBounds::new(title, help))
    }
}
