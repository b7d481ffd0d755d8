//! What a block's steps do.

use std::rc::Rc;

use super::{Chunks, Counter, Message, Play, Position, Posted, Wanted};
use crate::program::{Act, By, Place};
use crate::run::lines::Past;
use crate::run::memory::{Packet, Who};
use crate::run::value::{Value, sum};

/// Whether the block goes on, or what it waits for.
type Went = Result<bool, Wanted>;

impl Play<'_> {
    /// Does the next thing that a block does.
    pub(super) fn act(&mut self, block: u32) -> Went {
        let program = self.program;
        let position = self.positions[block as usize];
        let Some(step) = program.blocks[block as usize].steps.get(position.step as usize) else {
            return self.end(block);
        };
        if let Some(act) = step.acts.get(position.act as usize) {
            self.perform(block, act)?;
            self.positions[block as usize].act += 1;
        } else {
            let position = &mut self.positions[block as usize];
            position.step += 1;
            position.act = 0;
        }
        Ok(true)
    }

    fn perform(&mut self, block: u32, act: &Act) -> Result<(), Wanted> {
        let leader = self.lines.leader(block);
        match *act {
            Act::Move { by, ref from, ref to } => self.transfer(block, by, from, to)?,
            Act::Post { signal, by, relaxed } => {
                let began = Rc::clone(&self.began[block as usize]);
                let past = match by {
                    By::Block => self.stamp(leader),
                    By::Proxy(proxy) => self.asked(block, proxy),
                };
                let posted = Posted { past, began, relaxed };
                self.signals[signal as usize].posted.push_back(posted);
                self.wake(Wanted::Signal(signal));
            }
            Act::Await { signal, relaxed } => {
                let counter = &mut self.signals[signal as usize];
                let posted = counter.take().ok_or(Wanted::Signal(signal))?;
                if relaxed || posted.relaxed {
                    self.lines.learn_relaxed(leader, &posted.past, &posted.began);
                } else {
                    self.lines.learn(leader, &posted.past);
                }
            }
            Act::Sync => self.lines.sync(block),
            Act::Barrier { barrier, blocks } => self.barrier(block, barrier, blocks)?,
            Act::Release(semaphore) => {
                let posted = Posted { past: self.stamp(leader), ..Posted::default() };
                self.semaphores[semaphore as usize].posted.push_back(posted);
                self.wake(Wanted::Semaphore(semaphore));
            }
            Act::Acquire(semaphore) => {
                let counter = &mut self.semaphores[semaphore as usize];
                let posted = counter.take().ok_or(Wanted::Semaphore(semaphore))?;
                self.lines.learn(leader, &posted.past);
            }
            Act::Flush(proxy) => {
                let proxy = self.lines.proxy(proxy);
                self.lines.join(leader, proxy);
            }
            Act::Flag(number) => {
                let past = self.stamp(leader);
                self.flags[block as usize].push((number, past));
                self.wake(Wanted::Flag(Some(block), 0, 0));
            }
            Act::AwaitFlag { block: other, id, number } => {
                let set = other.and_then(|other| {
                    self.flags[other as usize].iter().find(|(set, _)| *set >= number)
                });
                let Some((_, past)) = set else {
                    return Err(Wanted::Flag(other, id, number));
                };
                let past = Rc::clone(past);
                self.lines.learn(leader, &past);
            }
        }
        Ok(())
    }

    /// What a line knows now.
    fn stamp(&mut self, line: u32) -> Rc<Past> {
        self.lines.tick(line);
        Rc::new(self.lines.past(line).clone())
    }

    /// What a proxy knows when it does what a block now asks it to.
    fn asked(&mut self, block: u32, proxy: u32) -> Rc<Past> {
        let line = self.lines.proxy(proxy);
        self.lines.join(line, self.lines.leader(block));
        self.stamp(line)
    }

    /// What whoever has a packet knows of who wrote it: all threads did.
    fn packed(&self, block: u32, by: By) -> Rc<Past> {
        let lines = match by {
            By::Block => [self.lines.leader(block), self.lines.others(block)],
            By::Proxy(proxy) => [self.lines.proxy(proxy); 2],
        };
        let mut past = self.lines.past(lines[0]).clone();
        past.join(self.lines.past(lines[1]));
        Rc::new(past)
    }

    fn transfer(&mut self, block: u32, by: By, from: &[Place], to: &[Place]) -> Result<(), Wanted> {
        let Position { run, step, .. } = self.positions[block as usize];
        self.is_possible((run, step), from, to)?;
        if let By::Proxy(proxy) = by {
            let line = self.lines.proxy(proxy);
            self.lines.join(line, self.lines.leader(block));
        }
        let mut total: Option<Value> = None;
        for &place in from {
            let value = self.take(block, (by, step), place);
            total = Some(match total {
                None => value,
                Some(known) => {
                    let (sum, work) = sum(&known, &value);
                    self.work += work;
                    sum
                }
            });
        }
        let value = total.flatten();
        self.work += 1;
        for &place in to {
            self.put(block, (by, step), place, &value);
        }
        Ok(())
    }

    /// Whether all that is to be moved is there, and has room.
    fn is_possible(
        &self,
        (run, step): (u32, u32),
        from: &[Place],
        to: &[Place],
    ) -> Result<(), Wanted> {
        for &place in from {
            match place {
                Place::Message(fifo) if self.fifos[fifo as usize].is_empty() => {
                    return Err(Wanted::Message(fifo));
                }
                Place::Packet { cell, stride } => {
                    let cell = half(cell, stride, run);
                    let is_there = self.memory.packet(cell).is_some_and(|packet| packet.run == run);
                    if !is_there {
                        return Err(Wanted::Packet(cell));
                    }
                }
                Place::Message(_) | Place::Cell { .. } => {}
            }
        }
        for &place in to {
            if let Place::Message(fifo) = place
                && !self.has_room(fifo, step)
            {
                return Err(Wanted::Slot(fifo));
            }
        }
        Ok(())
    }

    /// Whether another message of a step fits a connection.
    fn has_room(&self, fifo: u32, step: u32) -> bool {
        let messages = &self.fifos[fifo as usize];
        let slots = self.program.fifos[fifo as usize].slots as usize;
        if self.chunks == Chunks::Large {
            return messages.len() < slots;
        }
        let steps = messages.iter().zip(messages.iter().skip(1));
        let used = usize::from(!messages.is_empty())
            + steps.filter(|(one, next)| one.step != next.step).count();
        used < slots || messages.back().is_some_and(|last| last.step == step)
    }

    fn take(&mut self, block: u32, (by, step): (By, u32), place: Place) -> Value {
        let run = self.positions[block as usize].run;
        match place {
            Place::Message(fifo) => {
                let message = self.fifos[fifo as usize].pop_front()?;
                self.lines.learn(self.lines.leader(block), &message.past);
                self.wake(Wanted::Slot(fifo));
                message.value
            }
            Place::Cell { cell, stride } => {
                let cell = half(cell, stride, run);
                let used = self.lines.used((block, step), by, run);
                let race = self.memory.read(cell, used, &self.lines.pasts);
                if let Some(earlier) = race {
                    self.race(cell, earlier, used);
                }
                let value = self.memory.value(cell).clone();
                if value.is_none() {
                    self.unwritten(cell, Who::Step { block, step });
                }
                value
            }
            Place::Packet { cell, stride } => {
                let cell = half(cell, stride, run);
                if let Some(Packet { past, began, .. }) = self.memory.packet(cell).cloned() {
                    for line in [self.lines.leader(block), self.lines.others(block)] {
                        self.lines.learn_relaxed(line, &past, &began);
                    }
                }
                let used = self.lines.used((block, step), by, run);
                self.memory.read_packet(cell, used, &self.lines.pasts);
                self.memory.value(cell).clone()
            }
        }
    }

    fn put(&mut self, block: u32, (by, step): (By, u32), place: Place, value: &Value) {
        let run = self.positions[block as usize].run;
        let (cell, is_packet) = match place {
            Place::Message(fifo) => {
                let past = self.stamp(self.lines.leader(block));
                let message = Message { step, value: value.clone(), past };
                self.fifos[fifo as usize].push_back(message);
                return self.wake(Wanted::Message(fifo));
            }
            Place::Cell { cell, stride } => (half(cell, stride, run), false),
            Place::Packet { cell, stride } => (half(cell, stride, run), true),
        };
        let mut used = self.lines.used((block, step), by, run);
        used.writes = true;
        let race = self.memory.write(cell, value.clone(), used, &self.lines.pasts);
        if let Some(earlier) = race {
            self.race(cell, earlier, used);
        }
        if is_packet {
            let past = self.packed(block, by);
            let began = Rc::clone(&self.began[block as usize]);
            self.memory.seal(cell, Packet { run, past, began });
            self.wake(Wanted::Packet(cell));
        }
    }

    fn barrier(&mut self, block: u32, barrier: u32, blocks: u32) -> Result<(), Wanted> {
        if self.passed.remove(&block) {
            return Ok(());
        }
        self.lines.sync(block);
        let arrived = &mut self.arrived[barrier as usize];
        if !arrived.contains(&block) {
            arrived.push(block);
        }
        if (arrived.len() as u32) < blocks {
            return Err(Wanted::Barrier(barrier));
        }
        let arrived = std::mem::take(arrived);
        let leader = self.lines.leader(block);
        for &other in &arrived {
            let line = self.lines.leader(other);
            self.lines.join(leader, line);
        }
        for &other in &arrived {
            for line in [self.lines.leader(other), self.lines.others(other)] {
                self.lines.join(line, leader);
            }
            if other != block {
                self.passed.insert(other);
            }
        }
        self.wake(Wanted::Barrier(barrier));
        Ok(())
    }
}

impl Counter {
    /// Consumes one.
    fn take(&mut self) -> Option<Posted> {
        if self.initial > 0 {
            self.initial -= 1;
            return Some(Posted::default());
        }
        self.posted.pop_front()
    }
}

/// Of a cell with two halves, the one of this run.
fn half(cell: u32, stride: u32, run: u32) -> u32 {
    cell + stride * (run % 2)
}
