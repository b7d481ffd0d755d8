//! What starting a call and ending it do: to memory, and to those who wait.

use typed_nccl_plan::ir::CommunicatorId;
use typed_nccl_plan::lower::{Elements, Operation, Work};

use super::calls::{call_computes, communicator, overlap, reading};
use super::collectives::{members, outcome};
use super::machine::{Channel, Doing, Id, Machine, Running};
use super::memory::{Value, computed};

impl Machine<'_> {
    pub(super) fn start(&mut self, id: Id) {
        let call = self.call(id);
        let (rank, run, _) = id;
        let mut reads: Vec<(Elements, Vec<u64>)> = Vec::new();
        let mut writes: Vec<Elements> = Vec::new();
        for part in reading(call, rank as u32) {
            let owner = part.rank.unwrap_or(rank as u32);
            reads.push((part, self.memory.read(self.plan, owner, &part, run)));
        }
        let doing = match &call.work {
            Work::Compute { writes: parts, .. } => {
                writes.extend(parts);
                vec![Doing::Nothing]
            }
            Work::Assign { to, .. } => {
                writes.push(*to);
                vec![Doing::Nothing]
            }
            Work::Group(ops) | Work::Kernel { operations: ops, .. } => {
                let mut doing = Vec::new();
                for op in ops {
                    doing.push(self.begin(op, rank, run, &mut writes));
                }
                if let Work::Kernel { .. } = &call.work {
                    doing.push(self.launch(communicator(&ops[0]), rank));
                }
                doing
            }
        };
        for (at, part) in writes.iter().enumerate() {
            let earlier = writes[..at].iter().any(|other| overlap(part, other));
            assert!(call_computes(call) || !earlier, "a group writes {part:?} twice");
            self.memory.write(self.plan, rank as u32, part, run, |_| Value::Torn);
        }
        // What is written in place is read at the start alone.
        let kept = |(part, _): &(Elements, Vec<u64>)| {
            part.rank.is_some() || !writes.iter().any(|one| overlap(part, one))
        };
        let inputs = reads.iter().flat_map(|(_, values)| values.iter().copied()).collect();
        let reads = reads.into_iter().filter(kept).collect();
        self.running.insert(id, Running { doing, reads, inputs });
    }

    /// A kernel waits for the kernels of all ranks, whatever it has to say to them.
    fn launch(&mut self, among: CommunicatorId, rank: usize) -> Doing {
        let launched = self.launched.entry((rank, among.0)).or_default();
        *launched += 1;
        let turn = *launched;
        let members = members(self.plan, self.schedule, among.index(), rank);
        Doing::Launches { among: among.0, members, turn }
    }

    fn begin(
        &mut self,
        op: &Operation,
        rank: usize,
        run: usize,
        writes: &mut Vec<Elements>,
    ) -> Doing {
        let own = rank as u32;
        match op {
            Operation::Send { from, peer, among } => {
                let channel = (among.0, own, *peer);
                let values = self.memory.read(self.plan, own, from, run);
                let sent = self.sent.entry(channel).or_default();
                sent.push(values.clone());
                Doing::Sends { channel, turn: sent.len() - 1, from: *from, values }
            }
            Operation::Receive { to, peer, among } => {
                let channel = (among.0, *peer, own);
                writes.push(*to);
                let received = self.received.entry(channel).or_default();
                *received += 1;
                Doing::Receives { channel, turn: *received - 1, to: *to }
            }
            Operation::Collective { kind, among, send, recv, in_place } => {
                let touching = send.as_ref().zip(recv.as_ref()).is_some_and(|(a, b)| overlap(a, b));
                assert!(*in_place || !touching, "in place, and not said so: {op:?}");
                let values = send.as_ref().map(|part| self.memory.read(self.plan, own, part, run));
                writes.extend(recv);
                let met = self.met.entry((rank, among.0)).or_default();
                met.push(values.unwrap_or_default());
                let turn = met.len() - 1;
                let members = members(self.plan, self.schedule, among.index(), rank);
                Doing::Meets { among: among.0, members, turn, kind: *kind, recv: *recv }
            }
            Operation::Put { from, peer, to, signal, among } => {
                let channel = (among.0, own, *peer);
                let values = self.memory.read(self.plan, own, from, run);
                self.memory.write(self.plan, *peer, to, run, |_| Value::Torn);
                self.puts.entry(channel).or_default().push((*to, run, values, None));
                if let Some(signal) = signal {
                    self.raise(channel, signal.0);
                }
                Doing::Nothing
            }
            Operation::Signal { signal, peer, among } => {
                self.raise((among.0, own, *peer), signal.0);
                Doing::Nothing
            }
            Operation::Wait { signals, among } => {
                let mut list = Vec::new();
                for (signal, peer, times) in signals {
                    let channel = (among.0, *peer, own);
                    let consumed = self.consumed.entry((channel, signal.0)).or_default();
                    *consumed += *times as usize;
                    list.push((channel, signal.0, *consumed));
                }
                Doing::Awaits(list)
            }
        }
    }

    fn raise(&mut self, channel: Channel, signal: u32) {
        let raised = self.raised.entry((channel, signal)).or_default();
        *raised += 1;
        for (.., arrival) in self.puts.entry(channel).or_default() {
            arrival.get_or_insert((signal, *raised));
        }
    }

    pub(super) fn end(&mut self, id: Id) {
        let (rank, run, at) = id;
        let own = rank as u32;
        let Some(Running { doing, reads, inputs }) = self.running.remove(&id) else { return };
        let call = self.call(id);
        for (part, values) in &reads {
            let now = self.memory.read(self.plan, part.rank.unwrap_or(own), part, run);
            assert_eq!(&now, values, "rank {rank}: {part:?} changed while it was read: {call:?}");
        }
        let writes = match &call.work {
            Work::Compute { writes, .. } => writes,
            Work::Assign { to, .. } => std::slice::from_ref(to),
            Work::Group(_) | Work::Kernel { .. } => &[],
        };
        for (which, part) in writes.iter().enumerate() {
            let value = |at| Value::Is(computed(&call.work, &inputs, which, at));
            self.memory.write(self.plan, own, part, run, value);
        }
        for one in doing {
            match one {
                Doing::Sends { from, values, .. } => {
                    let now = self.memory.read(self.plan, own, &from, run);
                    assert_eq!(now, values, "rank {rank}: {from:?} changed while it was sent");
                }
                Doing::Receives { channel, turn, to } => {
                    let values = self.sent[&channel][turn].clone();
                    assert_eq!(values.len() as u64, to.end - to.start);
                    self.memory.write(self.plan, own, &to, run, |at| Value::Is(values[at]));
                }
                Doing::Meets { among, members, turn, kind, recv } => {
                    let Some(to) = recv else { continue };
                    let given: Vec<&Vec<u64>> =
                        members.iter().map(|&one| &self.met[&(one, among)][turn]).collect();
                    let index = members.iter().position(|&one| one == rank).expect("a member");
                    let values = outcome(&kind, &given, index, (to.end - to.start) as usize);
                    self.memory.write(self.plan, own, &to, run, |at| Value::Is(values[at]));
                }
                Doing::Awaits(list) => {
                    for (channel, signal, upto) in list {
                        let puts = std::mem::take(self.puts.entry(channel).or_default());
                        for put in puts {
                            let (to, run, values, arrival) = &put;
                            if arrival.is_some_and(|(by, turn)| by == signal && turn <= upto) {
                                let value = |at: usize| Value::Is(values[at]);
                                self.memory.write(self.plan, own, to, *run, value);
                            } else {
                                self.puts.entry(channel).or_default().push(put);
                            }
                        }
                    }
                }
                Doing::Launches { .. } | Doing::Nothing => {}
            }
        }
        self.ended[rank][run][at] = true;
        self.queues[rank][call.stream.index()].pop_front();
    }
}
