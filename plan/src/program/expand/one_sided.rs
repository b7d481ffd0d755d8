//! Expands puts, and waits for signals.

use super::Walk;
use super::leaf::op;
use crate::ir::{Awaited, Place, Put};
use crate::program::{NONE, Op, OpKind};

impl Walk<'_> {
    pub(super) fn put(&mut self, number: u32, rank: usize, this: &Put, shift: u32) {
        let Some(peer) = self.peer(number, rank, &this.peer, this.among.index()) else { return };
        let Some(source) = self.span(number, rank, &this.from) else { return };
        let Some(target) = self.span(number, rank, &this.to) else { return };
        let ends = [&this.from, &this.to].map(|region| &self.plan.buffers[region.buffer.index()]);
        let [(from, declare_from), (to, declare_to)] = ends.map(|buffer| {
            let role = buffer.role.word();
            let swapped = if buffer.copies == 2 { " swapped" } else { "" };
            (&buffer.name, format!("`{role}{swapped} window {}`", buffer.name))
        });
        let wrong = match ends.map(|buffer| buffer.window) {
            [true, true] => None,
            [false, false] if from != to => Some((
                format!("a put reads from `{from}` and writes into `{to}`, which are not windows"),
                format!("{declare_from} and {declare_to}"),
            )),
            [false, _] => {
                Some((format!("a put reads from `{from}`, which is not a window"), declare_from))
            }
            [true, false] => {
                Some((format!("a put writes into `{to}`, which is not a window"), declare_to))
            }
        };
        if let Some((title, declare)) = wrong {
            let help = format!("declare {declare}: puts read and write registered memory");
            return self.out_of_bounds(number, rank, title, &help);
        }
        let op = op(OpKind::Put, number, this.among.0, &this.place);
        let signal = this.signal.map_or(NONE, |signal| signal.0);
        self.push(rank, Op { peer, shift, signal, source, target, ..op }, &this.place);
    }

    pub(super) fn awaited(
        &mut self,
        number: u32,
        rank: usize,
        this: &Awaited,
        op: &Op,
        place: &Place,
    ) {
        let Some(peer) = self.peer(number, rank, &this.peer, op.communicator.into()) else {
            return;
        };
        match self.env(rank).eval(&this.times) {
            Ok(times) if (0..=i64::from(u32::MAX >> 1)).contains(&times) => {
                if times > 0 && self.spend(times as u64 / 64) {
                    let (times, signal) = (times as u32, this.signal.0);
                    self.push(rank, Op { peer, signal, times, ..op.clone() }, place);
                }
            }
            Ok(times) => {
                let title = format!("a wait for {times} signals");
                self.out_of_bounds(number, rank, title, "wait for 0 to 2^31 signals");
            }
            Err(why) => self.no_value(number, rank, why),
        }
    }
}
