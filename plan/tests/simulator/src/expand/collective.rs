//! Collectives: which regions a rank uses, and whether they fit together.

use typed_nccl_plan::ir::{Collective, CollectiveKind};
use typed_nccl_plan::verdict::Check;

use super::Walk;
use crate::number::Malformed;
use crate::unit::Act;

impl Walk<'_> {
    pub(super) fn collective(&mut self, collective: &Collective) -> Result<(), Malformed> {
        let members = self.instance.members(collective.among, self.rank)?;
        let size = members.len() as i64;
        let mut root = None;
        if let Some(place) = collective.kind.root() {
            let place = self.scope().number(place)?;
            root = usize::try_from(place).ok().and_then(|place| members.get(place)).copied();
            if root.is_none() {
                let rank = self.rank;
                let why = || format!("rank {rank}: root {place} of {size} ranks");
                self.outcome.note(Check::Bounds, why);
                return Ok(());
            }
        }
        let here = root == Some(self.rank);
        // Which of the two regions this rank uses, and how many parts each has.
        let (sends, receives, sent, received) = match collective.kind {
            CollectiveKind::AllReduce(_) => (true, true, 1, 1),
            CollectiveKind::Broadcast(_) => (here, true, 1, 1),
            CollectiveKind::Reduce(..) => (true, here, 1, 1),
            CollectiveKind::AllGather => (true, true, 1, size),
            CollectiveKind::ReduceScatter(_) => (true, true, size, 1),
            CollectiveKind::AllToAll => (true, true, size, size),
            CollectiveKind::Gather(_) => (true, here, 1, size),
            CollectiveKind::Scatter(_) => (here, true, size, 1),
        };
        let send = if sends { Some(self.region(&collective.send)?) } else { None };
        let recv = if receives { Some(self.region(&collective.recv)?) } else { None };
        if [send, recv].iter().flatten().all(|span| span.said == 0) {
            return Ok(());
        }
        let lengths = [(send, sent), (recv, received)];
        let mut counts =
            lengths.iter().filter_map(|(span, parts)| Some((span.as_ref()?.said, *parts)));
        let (length, parts) = counts.next().unwrap_or((0, 1));
        let count = length.div_euclid(parts);
        if length != count * parts || counts.any(|(length, parts)| length != count * parts) {
            let rank = self.rank;
            let why = || format!("rank {rank}: what a collective sends and receives does not fit");
            self.outcome.note(Check::Agreement, why);
            // Who has no part does not take part.
            self.outcome.note(Check::CollectiveOrder, why);
        }
        let types = [send, recv]
            .map(|span| span.map(|span| &self.instance.plan.buffers[span.buffer].element));
        if let [Some(a), Some(b)] = types
            && a != b
        {
            self.outcome.note(Check::Agreement, || format!("a collective from {a} to {b}"));
        }
        let act = Act::Collective { kind: collective.kind.clone(), root, send, recv, count };
        self.issue(self.rank, 0, act, Some(collective.among), &collective.place)
    }
}
