//! Expands puts, and waits for signals.

use super::Walk;
use super::problems::OutOfBounds;
use crate::ir::{Buffer, Put, Wait};
use crate::program::{Op, OpKind};

impl Walk<'_> {
    /// A put reads and writes windows.
    pub(super) fn windows(&self, this: &Put) -> Result<(), OutOfBounds> {
        let ends = [&this.from, &this.to].map(|region| &self.plan.buffers[region.buffer.index()]);
        let [from, to] = ends.map(|buffer| &buffer.name);
        let [declare_from, declare_to] = ends.map(declare_window);
        let (title, declare) = match ends.map(|buffer| buffer.window) {
            [true, true] => return Ok(()),
            [false, false] if from != to => (
                format!("a put reads from `{from}` and writes into `{to}`, which are not windows"),
                format!("{declare_from} and {declare_to}"),
            ),
            [false, _] => {
                (format!("a put reads from `{from}`, which is not a window"), declare_from)
            }
            [true, false] => {
                (format!("a put writes into `{to}`, which is not a window"), declare_to)
            }
        };
        let help = format!("declare {declare}: puts read and write registered memory");
        Err(OutOfBounds::new(title, help))
    }

    pub(super) fn wait(
        &mut self,
        rank: usize,
        this: &Wait,
        shifts: &[u32],
    ) -> Result<(), OutOfBounds> {
        for (awaited, &shift) in this.signals.iter().zip(shifts) {
            let shift = self.shift_of(rank, &awaited.peer, shift)?;
            let Some(peer) = self.peer(rank, &awaited.peer, this.among)? else { continue };
            let times = self.env(rank).eval(&awaited.times)?;
            if !(0..=i64::from(u32::MAX >> 1)).contains(&times) {
                let title = format!("a wait for {times} signals");
                return Err(OutOfBounds::new(title, "wait for 0 to 2^31 signals"));
            }
            if times > 0 && self.spend(times as u64 / 64) {
                let op = self.op(OpKind::Wait, this.among, &this.place);
                let (times, signal) = (times as u32, awaited.signal.0);
                self.push(rank, Op { peer, shift, signal, times, ..op }, &this.place);
            }
        }
        Ok(())
    }
}

/// How a buffer is declared as a window.
pub(super) fn declare_window(buffer: &Buffer) -> String {
    let swapped = if buffer.copies == 2 { " swapped" } else { "" };
    format!("`{}{swapped} window {}`", buffer.role.word(), buffer.name)
}
