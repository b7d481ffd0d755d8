//! Expands a statement without a body, on every rank that runs it.

use super::problems::OutOfBounds;
use super::{Active, Halves, Walk};
use crate::ir::{Communication, CommunicatorId, LocalWork, Place, StepKind};
use crate::program::statements::Numbered;
use crate::program::{NONE, Op, OpKind, Span};

impl Walk<'_> {
    pub(super) fn leaf(&mut self, step: &Numbered<'_>, active: &Active, halves: Halves) {
        if !self.spend(step.weight.saturating_mul(self.layout.size as u64)) {
            return;
        }
        self.number = step.number;
        let kind = &step.step.kind;
        if let StepKind::Transfer(this) = kind {
            return self.transfer(this, active, halves);
        }
        // A distance is the same on all ranks.
        let shifts: Vec<u32> = match (kind, kind.communication().and_then(|this| this.peer)) {
            (_, Some(peer)) => vec![self.shift(0, peer)],
            (StepKind::Wait(this), _) => {
                this.signals.iter().map(|awaited| self.shift(0, &awaited.peer)).collect()
            }
            _ => Vec::new(),
        };
        if matches!(kind, StepKind::Compute(this) if !this.arguments.is_empty()) {
            self.counted.insert(self.turn, self.counters.clone());
        }
        let work = kind.local_work();
        for rank in (0..self.layout.size).filter(|rank| active.is(*rank)) {
            if self.stopped {
                return;
            }
            let issued = match (&work, kind) {
                (Some(this), _) => self.local(rank, this),
                (None, StepKind::Collective(this)) => self.collective(rank, this),
                (None, StepKind::Wait(this)) => self.wait(rank, this, &shifts),
                (None, kind) => self.towards_peer(rank, kind, shifts.first().copied()),
            };
            self.found(rank, issued);
        }
    }

    /// A send, a receive, a put or a signal.
    fn towards_peer(
        &mut self,
        rank: usize,
        kind: &StepKind,
        shift: Option<u32>,
    ) -> Result<(), OutOfBounds> {
        let Some(this) = kind.communication() else { return Ok(()) };
        let Communication { from, to, peer: Some(whom), signal, among, place } = this else {
            return Ok(());
        };
        let shift = self.shift_of(rank, whom, shift.unwrap_or(NONE))?;
        let Some(peer) = self.peer(rank, whom, among)? else { return Ok(()) };
        let (source, target) = (self.span(rank, from)?, self.span(rank, to)?);
        let kind = match kind {
            StepKind::Put(this) => {
                self.windows(this)?;
                OpKind::Put
            }
            StepKind::Send(_) => OpKind::Send,
            StepKind::Receive(_) => OpKind::Receive,
            _ => OpKind::Signal,
        };
        let signal = signal.map_or(NONE, |signal| signal.0);
        let count = self.count(rank, from.or(to))?;
        let op = self.op(kind, among, place);
        self.push(rank, Op { peer, shift, signal, count, source, target, ..op }, place);
        Ok(())
    }

    /// A compute step or an assignment.
    fn local(&mut self, rank: usize, this: &LocalWork<'_>) -> Result<(), OutOfBounds> {
        for argument in this.arguments {
            let value = self.env(rank).eval(argument)?;
            if value < 0 {
                let name = this.name.unwrap_or_default();
                let title = format!("`{name}` gets {value} on rank {rank}");
                let help = "a step gets numbers from 0: add to it, or run the step under an `if`";
                return Err(OutOfBounds::new(title, help));
            }
        }
        if this.by.is_some() {
            return self.assigned(rank, this);
        }
        let kinds = [(OpKind::Read, this.reads), (OpKind::Write, this.writes)];
        let mut any = false;
        let mut part = 0;
        for (kind, regions) in kinds {
            for region in regions {
                part += 1;
                let array = &self.plan.buffers[region.buffer.index()].array;
                let every = array.is_some() && region.index.is_none();
                let count = if every { self.objects.count(region.buffer) } else { 1 };
                if !self.spend(u64::from(count)) {
                    return Ok(());
                }
                for index in 0..count {
                    let span = self.span_of((rank, rank), region, every.then_some(index))?;
                    let op = match kind {
                        OpKind::Read => Op {
                            part: part - 1,
                            source: span,
                            ..self.op(kind, CommunicatorId(0), this.place)
                        },
                        _ => Op {
                            part: part - 1,
                            target: span,
                            ..self.op(kind, CommunicatorId(0), this.place)
                        },
                    };
                    self.push(rank, op, this.place);
                    any = true;
                }
            }
        }
        if !any {
            let op = self.op(OpKind::Read, CommunicatorId(0), this.place);
            self.push(rank, op, this.place);
        }
        Ok(())
    }

    /// An operation of the statement, without operands.
    pub(super) fn op(&self, kind: OpKind, among: CommunicatorId, place: &Place) -> Op {
        Op {
            kind,
            unit: NONE,
            statement: self.number,
            communicator: among.0 as u16,
            stream: place.on.0 as u16,
            part: 0,
            peer: NONE,
            shift: NONE,
            signal: NONE,
            times: 0,
            count: NONE,
            source: Span::NOTHING,
            target: Span::NOTHING,
        }
    }
}
