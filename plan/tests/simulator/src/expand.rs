//! From a plan to the units of each rank. Bounds are checked on the way (A12), as nothing can be
//! done with an operation that lies outside.

mod collective;
mod local;

use std::hash::{DefaultHasher, Hash, Hasher};

use typed_nccl_plan::ir::{
    CommunicatorId, Compute, Loop, Peer, Place, Put, Region, Step, StepKind, Transfer, Wait,
};
use typed_nccl_plan::verdict::Check;

use crate::far::Far;
use crate::instance::{Instance, Where};
use crate::number::{Malformed, Scope};
use crate::outcome::Outcome;
use crate::unit::{Act, Key, Known, Op, Span, Unit};

/// An operation on its way to its rank: with the unit that it belongs to.
struct Issued {
    unit: Key,
    op: Op,
}

struct Walk<'a> {
    instance: &'a Instance<'a>,
    rank: usize,
    counters: Vec<Option<i64>>,
    path: Key,
    /// The group around this place.
    group: Option<Key>,
    /// The sequence around this place.
    sequence: Option<Key>,
    issued: Vec<(usize, Issued)>,
    outcome: &'a mut Outcome,
}

/// The units of each rank, in the order of issue.
pub(crate) fn expand(
    instance: &Instance<'_>,
    outcome: &mut Outcome,
) -> Result<Vec<Vec<Unit>>, Malformed> {
    let mut ranks: Vec<Vec<Issued>> = (0..instance.ranks()).map(|_| Vec::new()).collect();
    for rank in 0..instance.ranks() {
        let mut walk = Walk {
            instance,
            rank,
            counters: vec![None; instance.plan.counters.len()],
            path: Vec::new(),
            group: None,
            sequence: None,
            issued: Vec::new(),
            outcome,
        };
        walk.steps(&instance.plan.steps)?;
        for (owner, issued) in walk.issued {
            ranks[owner].push(issued);
        }
    }
    Ok(ranks.into_iter().map(units).collect())
}

fn units(mut issued: Vec<Issued>) -> Vec<Unit> {
    issued.sort_by(|a, b| (&a.unit, a.op.among, &a.op.key).cmp(&(&b.unit, b.op.among, &b.op.key)));
    let mut units: Vec<Unit> = Vec::new();
    // A group is launched once for each communicator.
    for part in issued.chunk_by(|a, b| (&a.unit, a.op.among) == (&b.unit, b.op.among)) {
        let group = issued.iter().filter(|one| one.unit == part[0].unit);
        let mut after: Vec<usize> = group.flat_map(|one| one.op.after.clone()).collect();
        after.sort_unstable();
        after.dedup();
        let ops: Vec<Op> = part.iter().map(|one| one.op.clone()).collect();
        units.push(Unit { key: part[0].unit.clone(), stream: ops[0].stream, after, ops });
    }
    units
}

impl Walk<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope {
            instance: self.instance,
            rank: Some(self.rank),
            counters: &self.counters,
            world: &self.instance.world,
        }
    }

    fn bad<T>(&self, what: &str) -> Result<T, Malformed> {
        Err(Malformed(format!("{what} at step {:?}", self.path)))
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Malformed> {
        for (at, step) in steps.iter().enumerate() {
            self.path.push(at as i64);
            let done = self.step(step);
            self.path.pop();
            done?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Malformed> {
        let plain = matches!(
            step.kind,
            StepKind::Compute(_)
                | StepKind::Assign(_)
                | StepKind::Transfer(_)
                | StepKind::When(_)
                | StepKind::Loop(_)
        );
        if self.sequence.is_some() && !plain {
            return self.bad("a sequence holds compute steps and transfers");
        }
        match &step.kind {
            StepKind::Group(body) => {
                if self.group.is_some() {
                    return self.bad("a group in a group");
                }
                self.group = Some(self.path.clone());
                let done = self.steps(body);
                self.group = None;
                done
            }
            StepKind::Sequence(body) => {
                if self.group.is_some() {
                    return self.bad("a sequence in a group");
                }
                self.sequence = Some(self.path.clone());
                let done = self.steps(body);
                self.sequence = None;
                done
            }
            StepKind::When(when) => {
                if self.scope().holds(&when.condition)? {
                    self.steps(&when.body)
                } else {
                    Ok(())
                }
            }
            StepKind::Loop(turns) => self.turns(turns),
            // Claims between statements are not judged.
            StepKind::Here(_) => Ok(()),
            StepKind::Compute(compute) => self.compute(compute),
            StepKind::Assign(assign) => self.assign(assign),
            StepKind::Collective(collective) => self.collective(collective),
            StepKind::Transfer(transfer) => self.transfer(transfer),
            StepKind::Send(send) => {
                let Some(peer) = self.peer(&send.peer, Some(send.among))? else { return Ok(()) };
                let far = Far::new(self.instance, self.scope(), &send.peer);
                let act = Act::Send { from: self.region(&send.from)?, peer, far };
                self.issue(self.rank, 0, act, Some(send.among), &send.place)
            }
            StepKind::Receive(receive) => {
                let among = Some(receive.among);
                let Some(peer) = self.peer(&receive.peer, among)? else { return Ok(()) };
                let far = Far::new(self.instance, self.scope(), &receive.peer);
                let act = Act::Receive { to: self.region(&receive.to)?, peer, far };
                self.issue(self.rank, 0, act, among, &receive.place)
            }
            StepKind::Put(put) => self.put(put),
            StepKind::Signal(signal) => {
                let among = Some(signal.among);
                let Some(peer) = self.peer(&signal.peer, among)? else { return Ok(()) };
                let act = Act::Signal { signal: signal.signal.index(), peer };
                self.issue(self.rank, 0, act, among, &signal.place)
            }
            StepKind::Wait(wait) => self.wait(wait),
        }
    }

    fn turns(&mut self, turns: &Loop) -> Result<(), Malformed> {
        let from = self.scope().number(&turns.from)?;
        let to = self.scope().number(&turns.to)?;
        let counter = turns.counter.index();
        if counter >= self.counters.len() {
            return self.bad("no such counter");
        }
        let before = self.counters[counter];
        let base = turns.powers.as_ref().map(|base| self.scope().number(base)).transpose()?;
        if base.is_some_and(|base| base < 2) {
            return self.bad("powers without an end");
        }
        // Slow, and beyond doubt.
        let counts = |value: &i64| {
            let Some(base) = base else { return true };
            let mut left = *value;
            while left > 1 && left % base == 0 {
                left /= base;
            }
            left == 1
        };
        let mut values: Vec<i64> = (from..to).filter(counts).collect();
        if turns.reverse {
            values.reverse();
        }
        for value in values {
            self.counters[counter] = Some(value);
            // The same iteration has the same place on all ranks, whatever their bounds.
            self.path.push(if turns.reverse { -value } else { value });
            let done = self.steps(&turns.body);
            self.path.pop();
            done?;
        }
        self.counters[counter] = before;
        Ok(())
    }

    fn transfer(&mut self, transfer: &Transfer) -> Result<(), Malformed> {
        let Some(peer) = self.peer(&transfer.peer, Some(transfer.among))? else {
            return Ok(());
        };
        let from = self.region(&transfer.from)?;
        let to = self.region_of(peer, &transfer.to)?;
        let far = Far::new(self.instance, self.scope(), &transfer.peer);
        let back = far.as_ref().map(Far::back);
        let send = Act::Send { from, peer, far };
        let receive = Act::Receive { to, peer: self.rank, far: back };
        let among = Some(transfer.among);
        if let Some(place) = self.sequence.clone() {
            let phase = if peer > self.rank { 0 } else { 2 };
            self.half(place.clone(), 1, self.rank, send, among, &transfer.place)?;
            // Neither lower nor higher: nothing receives what a rank sends itself.
            if peer == self.rank {
                return Ok(());
            }
            let free = Place { on: transfer.place.on, after: Vec::new() };
            return self.half(place, phase, peer, receive, among, &free);
        }
        self.issue(self.rank, 0, send, among, &transfer.place)?;
        self.issue(peer, 1, receive, among, &transfer.place)
    }

    fn put(&mut self, put: &Put) -> Result<(), Malformed> {
        let Some(peer) = self.peer(&put.peer, Some(put.among))? else { return Ok(()) };
        let (from, to) = (self.region(&put.from)?, self.region(&put.to)?);
        for region in [&put.from, &put.to] {
            let buffer = &self.instance.plan.buffers[region.buffer.index()];
            if !buffer.window {
                let why = || format!("a put, and `{}` is no window", buffer.name);
                self.outcome.note(Check::Bounds, why);
            }
        }
        let signal = put.signal.map(|signal| signal.index());
        let act = Act::Put { from, to, peer, signal };
        self.issue(self.rank, 0, act, Some(put.among), &put.place)
    }

    fn compute(&mut self, compute: &Compute) -> Result<(), Malformed> {
        if self.group.is_some() {
            return self.bad("a compute step in a group");
        }
        let mut hash = DefaultHasher::new();
        (&compute.name, self.rank).hash(&mut hash);
        for argument in &compute.arguments {
            let number = self.scope().number(argument)?;
            number.hash(&mut hash);
            if number < 0 {
                let rank = self.rank;
                self.outcome.note(Check::Bounds, || format!("rank {rank}: a step gets {number}"));
            }
        }
        let name = hash.finish();
        self.apart((&compute.reads, &compute.writes), true)?;
        let act = Act::Compute {
            name,
            known: self.known(compute)?,
            reads: self.regions(&compute.reads)?,
            writes: self.regions(&compute.writes)?,
        };
        match self.sequence.clone() {
            Some(place) => self.half(place, 1, self.rank, act, None, &compute.place),
            None => self.issue(self.rank, 0, act, None, &compute.place),
        }
    }

    /// What the plan says of a step's results (A2: of one length; no plan at all if of two types).
    fn known(&mut self, compute: &Compute) -> Result<Vec<Known>, Malformed> {
        let mut known: Vec<Known> = Vec::new();
        for (nth, equation) in compute.computes.iter().enumerate() {
            let from = equation.of.iter().map(|&one| compute.reads.get(one as usize));
            let (Some(to), Some(from)) =
                (compute.writes.get(equation.to as usize), from.collect::<Option<Vec<_>>>())
            else {
                return self.bad("an equation of no region");
            };
            let element = |region: &Region| {
                self.instance.plan.buffers.get(region.buffer.index()).map(|one| &one.element)
            };
            if from.is_empty() || from.iter().any(|one| element(one) != element(to)) {
                return self.bad("an equation of nothing, or of two types");
            }
            let to = self.regions(std::slice::from_ref(to))?;
            let from: Vec<Vec<Span>> = from
                .into_iter()
                .map(|one| self.regions(std::slice::from_ref(one)))
                .collect::<Result<_, _>>()?;
            if compute.computes[..nth].iter().any(|one| one.to == equation.to) {
                return self.bad("two equations of one region");
            }
            let said = |list: &[Span]| list.iter().map(|one| one.said).sum::<i64>();
            if from.iter().any(|one| said(one) != said(&to)) {
                let rank = self.rank;
                let text = || format!("rank {rank}: an equation of several lengths");
                self.outcome.note(Check::Agreement, text);
                continue;
            }
            known.push(Known { to, by: equation.by, from });
        }
        Ok(known)
    }

    /// What is written is apart, and what is read is apart from that or the very same (A9): of a
    /// step, by its name.
    fn apart(&mut self, regions: (&[Region], &[Region]), by_name: bool) -> Result<(), Malformed> {
        let mut parts = |regions: &[Region]| -> Result<Vec<Vec<Span>>, Malformed> {
            regions.iter().map(|region| self.regions(std::slice::from_ref(region))).collect()
        };
        let (reads, writes) = (parts(regions.0)?, parts(regions.1)?);
        let meet = |a: &[Span], b: &[Span]| a.iter().any(|a| b.iter().any(|b| a.meets(b)));
        let twice =
            (0..writes.len()).any(|at| writes[..at].iter().any(|before| meet(before, &writes[at])));
        let same = |read: usize, write: usize| match by_name {
            true => regions.0[read] == regions.1[write],
            false => reads[read] == writes[write],
        };
        let partly = (0..reads.len()).any(|read| {
            (0..writes.len()).any(|write| !same(read, write) && meet(&reads[read], &writes[write]))
        });
        if twice || partly {
            let rank = self.rank;
            self.outcome.note(Check::Hazards, || format!("rank {rank}: regions of a step overlap"));
        }
        Ok(())
    }

    fn wait(&mut self, wait: &Wait) -> Result<(), Malformed> {
        let mut awaited = Vec::new();
        for one in &wait.signals {
            let times = self.scope().number(&one.times)?;
            let peer = self.peer(&one.peer, Some(wait.among))?;
            if times < 0 {
                let rank = self.rank;
                // No number of times: what rule that breaks is a matter of the telling.
                for check in [Check::Signals, Check::Bounds] {
                    self.outcome.note(check, || format!("rank {rank} waits {times} times"));
                }
            }
            if let Some(peer) = peer
                && times > 0
            {
                awaited.push((one.signal.index(), peer, times));
            }
        }
        if awaited.is_empty() {
            return Ok(());
        }
        self.issue(self.rank, 0, Act::Wait(awaited), Some(wait.among), &wait.place)
    }

    /// The peer, if there is one that can be reached; that it cannot be is noted.
    fn peer(
        &mut self,
        peer: &Peer,
        among: Option<CommunicatorId>,
    ) -> Result<Option<usize>, Malformed> {
        let rank = self.rank;
        match self.instance.peer(self.scope(), peer)? {
            Where::Absent => Ok(None),
            Where::Outside(number) => {
                self.outcome.note(Check::Bounds, || format!("rank {rank}: no rank {number}"));
                Ok(None)
            }
            Where::Rank(peer) => {
                if let Some(among) = among
                    && !self.instance.members(among, rank)?.contains(&peer)
                {
                    let why = || format!("rank {rank}: {peer} is not in its communicator");
                    self.outcome.note(Check::Bounds, why);
                    return Ok(None);
                }
                Ok(Some(peer))
            }
        }
    }

    /// A region of one allocation of this rank.
    fn region(&mut self, region: &Region) -> Result<Span, Malformed> {
        self.region_of(self.rank, region)
    }

    /// A region of another rank, as this one computes it.
    fn region_of(&mut self, owner: usize, region: &Region) -> Result<Span, Malformed> {
        let array = self.instance.plan.buffers.get(region.buffer.index());
        let array = array.and_then(|buffer| buffer.array.as_ref());
        let at = match (&region.index, array) {
            (None, None) => 0,
            (Some(at), Some(_)) => self.scope().number(at)?,
            (Some(_), None) => return self.bad("an index of no array"),
            (None, Some(_)) => return self.bad("all of an array"),
        };
        let lengths = self.instance.lengths(owner, region)?;
        let buffer = &self.instance.plan.buffers[region.buffer.index()];
        if region.next && buffer.copies < 2 {
            return self.bad("the other copy of a buffer that has one");
        }
        let range = match &region.range {
            Some((from, to)) => {
                let scope = self.scope();
                Some((scope.number(from)?, scope.number(to)?))
            }
            None => None,
        };
        let rank = self.rank;
        let mut span = Span {
            buffer: region.buffer.index(),
            at: 0,
            next: region.next,
            from: 0,
            to: 0,
            said: range.map_or(0, |(from, to)| to - from),
        };
        let Some((at, &len)) = usize::try_from(at).ok().and_then(|at| Some((at, lengths.get(at)?)))
        else {
            let why = || format!("rank {rank}: `{}` has no element {at}", buffer.name);
            self.outcome.note(Check::Bounds, why);
            return Ok(span);
        };
        span.at = at;
        let (from, to) = range.unwrap_or((0, len));
        span.said = to - from;
        if from < 0 || to < from || len < to {
            let why = || format!("rank {rank}: {from}..{to} of `{}`, {len} long", buffer.name);
            self.outcome.note(Check::Bounds, why);
        }
        let len = len.max(0);
        span.from = from.clamp(0, len) as usize;
        span.to = (to.clamp(0, len) as usize).max(span.from);
        Ok(span)
    }

    /// Regions of a compute step: an array without an index is all of it.
    fn regions(&mut self, regions: &[Region]) -> Result<Vec<Span>, Malformed> {
        let mut spans = Vec::new();
        for region in regions {
            let buffer = self.instance.plan.buffers.get(region.buffer.index());
            let whole = region.index.is_none() && buffer.is_some_and(|one| one.array.is_some());
            if !whole {
                spans.push(self.region(region)?);
                continue;
            }
            if region.range.is_some() {
                return self.bad("a range of all of an array");
            }
            for (at, &len) in self.instance.lengths(self.rank, region)?.iter().enumerate() {
                spans.push(Span {
                    buffer: region.buffer.index(),
                    at,
                    next: region.next,
                    from: 0,
                    to: usize::try_from(len).unwrap_or(0),
                    said: len,
                });
            }
        }
        Ok(spans)
    }

    /// An operation outside a sequence. `late` puts receiving halves behind the sending one.
    fn issue(
        &mut self,
        owner: usize,
        late: i64,
        act: Act,
        among: Option<CommunicatorId>,
        place: &Place,
    ) -> Result<(), Malformed> {
        let unit = self.group.clone().unwrap_or_else(|| self.path.clone());
        let mut key = self.path.clone();
        key.extend([late, self.rank as i64]);
        self.push(owner, unit, key, act, among, place)
    }

    /// An operation of a sequence: a unit of its own, in its phase.
    fn half(
        &mut self,
        sequence: Key,
        phase: i64,
        owner: usize,
        act: Act,
        among: Option<CommunicatorId>,
        place: &Place,
    ) -> Result<(), Malformed> {
        let inner = self.path[sequence.len()..].to_vec();
        let mut unit = sequence;
        unit.push(phase);
        unit.extend(inner);
        unit.push(self.rank as i64);
        let key = unit.clone();
        self.push(owner, unit, key, act, among, place)
    }

    fn push(
        &mut self,
        owner: usize,
        unit: Key,
        key: Key,
        act: Act,
        among: Option<CommunicatorId>,
        place: &Place,
    ) -> Result<(), Malformed> {
        let streams = self.instance.plan.streams.len();
        let named = std::iter::once(&place.on).chain(&place.after);
        if named.into_iter().any(|stream| stream.index() >= streams) {
            return self.bad("no such stream");
        }
        let among = among.map(CommunicatorId::index);
        let after = place.after.iter().map(|stream| stream.index()).collect();
        let op = Op { act, among, stream: place.on.index(), after, key };
        self.issued.push((owner, Issued { unit, op }));
        Ok(())
    }
}

/// A region on its own, on a rank, outside all loops. That it lies outside is noted for `check`
/// too.
pub(crate) fn alone(
    instance: &Instance<'_>,
    rank: usize,
    region: &Region,
    check: Check,
    outcome: &mut Outcome,
) -> Result<Span, Malformed> {
    let mut inner = Outcome::default();
    let counters = vec![None; instance.plan.counters.len()];
    let span = at(instance, (rank, rank, &counters), region, &mut inner)?;
    if let Some(text) = inner.notes.remove(&Check::Bounds) {
        outcome.note(Check::Bounds, || text.clone());
        outcome.note(check, || text);
    }
    Ok(span)
}

/// A region of rank `owner`, as `rank` computes it with these counters.
pub(crate) fn at(
    instance: &Instance<'_>,
    (rank, owner, counters): (usize, usize, &[Option<i64>]),
    region: &Region,
    outcome: &mut Outcome,
) -> Result<Span, Malformed> {
    let mut walk = Walk {
        instance,
        rank,
        counters: counters.to_vec(),
        path: Vec::new(),
        group: None,
        sequence: None,
        issued: Vec::new(),
        outcome,
    };
    walk.region_of(owner, region)
}
