//! Expands a statement without a body, on every rank that runs it.

use super::{Active, Halves, Walk};
use crate::ir::{Compute, Place, StepKind};
use crate::program::statements::Numbered;
use crate::program::{NONE, Op, OpKind, Span};

impl Walk<'_> {
    pub(super) fn leaf(&mut self, step: &Numbered<'_>, active: &Active, halves: Halves) {
        if !self.spend(step.weight.saturating_mul(self.layout.size as u64)) {
            return;
        }
        let number = step.number;
        match &step.step.kind {
            StepKind::Transfer(this) => self.transfer(number, this, active, halves),
            kind => {
                // A distance is the same on all ranks.
                let shifts: Vec<u32> = match kind {
                    StepKind::Send(this) => vec![self.shift(0, &this.peer)],
                    StepKind::Receive(this) => vec![self.shift(0, &this.peer)],
                    StepKind::Put(this) => vec![self.shift(0, &this.peer)],
                    StepKind::Signal(this) => vec![self.shift(0, &this.peer)],
                    StepKind::Wait(this) => {
                        this.signals.iter().map(|awaited| self.shift(0, &awaited.peer)).collect()
                    }
                    _ => Vec::new(),
                };
                let shift = shifts.first().copied().unwrap_or(NONE);
                if matches!(kind, StepKind::Compute(this) if !this.arguments.is_empty()) {
                    self.counted.insert(self.turn, self.counters.clone());
                }
                for rank in (0..self.layout.size).filter(|rank| active.is(*rank)) {
                    if self.stopped {
                        return;
                    }
                    match kind {
                        StepKind::Compute(this) => self.compute(number, rank, this),
                        StepKind::Collective(this) => self.collective(number, rank, this),
                        StepKind::Send(this) => {
                            let shift = self.shift_of(number, rank, &this.peer, shift);
                            let peer = self.peer(number, rank, &this.peer, this.among.index());
                            if let Some(peer) = peer
                                && let Some(source) = self.span(number, rank, &this.from)
                            {
                                let op = op(OpKind::Send, number, this.among.0, &this.place);
                                let op = Op { peer, shift, source, ..op };
                                self.push(rank, op, &this.place);
                            }
                        }
                        StepKind::Receive(this) => {
                            let shift = self.shift_of(number, rank, &this.peer, shift);
                            let peer = self.peer(number, rank, &this.peer, this.among.index());
                            if let Some(peer) = peer
                                && let Some(target) = self.span(number, rank, &this.to)
                            {
                                let op = op(OpKind::Receive, number, this.among.0, &this.place);
                                let op = Op { peer, shift, target, ..op };
                                self.push(rank, op, &this.place);
                            }
                        }
                        StepKind::Put(this) => {
                            let shift = self.shift_of(number, rank, &this.peer, shift);
                            self.put(number, rank, this, shift);
                        }
                        StepKind::Signal(this) => {
                            let shift = self.shift_of(number, rank, &this.peer, shift);
                            let peer = self.peer(number, rank, &this.peer, this.among.index());
                            if let Some(peer) = peer {
                                let op = op(OpKind::Signal, number, this.among.0, &this.place);
                                let op = Op { peer, shift, signal: this.signal.0, ..op };
                                self.push(rank, op, &this.place);
                            }
                        }
                        StepKind::Wait(this) => {
                            let op = op(OpKind::Wait, number, this.among.0, &this.place);
                            for (awaited, &shift) in this.signals.iter().zip(&shifts) {
                                let shift = self.shift_of(number, rank, &awaited.peer, shift);
                                let op = Op { shift, ..op.clone() };
                                self.awaited(number, rank, awaited, &op, &this.place);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    pub(super) fn compute(&mut self, number: u32, rank: usize, this: &Compute) {
        for argument in &this.arguments {
            match self.env(rank).eval(argument) {
                Err(why) => return self.no_value(number, rank, why),
                Ok(value) if value < 0 => {
                    let title = format!("`{}` gets {value} on rank {rank}", this.name);
                    let help =
                        "a step gets numbers from 0: add to it, or run the step under an `if`";
                    return self.out_of_bounds(number, rank, title, help);
                }
                Ok(_) => {}
            }
        }
        let kinds = [(OpKind::Read, &this.reads), (OpKind::Write, &this.writes)];
        let mut any = false;
        let mut part = 0;
        for (kind, regions) in kinds {
            for region in regions {
                part += 1;
                let array = &self.plan.buffers[region.buffer.index()].array;
                let every = array.is_some() && region.index.is_none();
                let count = if every { self.objects.count(region.buffer) } else { 1 };
                if !self.spend(u64::from(count)) {
                    return;
                }
                for index in 0..count {
                    let index = every.then_some(index);
                    if let Some(span) = self.span_of(number, rank, region, index) {
                        let op = op(kind, number, 0, &this.place);
                        let op = match kind {
                            OpKind::Read => Op { part: part - 1, source: span, ..op },
                            _ => Op { part: part - 1, target: span, ..op },
                        };
                        self.push(rank, op, &this.place);
                        any = true;
                    }
                }
            }
        }
        if !any {
            let op = op(OpKind::Read, number, 0, &this.place);
            self.push(rank, op, &this.place);
        }
    }
}

pub(super) fn op(kind: OpKind, statement: u32, communicator: u32, place: &Place) -> Op {
    Op {
        kind,
        statement,
        communicator: communicator as u16,
        stream: place.on.0 as u16,
        part: 0,
        peer: NONE,
        shift: NONE,
        signal: NONE,
        times: 0,
        source: Span::NOTHING,
        target: Span::NOTHING,
    }
}
