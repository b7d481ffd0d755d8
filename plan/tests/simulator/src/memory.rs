//! The memory of all ranks while a plan runs.
//!
//! An operation reads when its unit starts, and looks again when it ends: what changed meanwhile is
//! a race. What it will write is torn from its unit's start until it is written.

use std::collections::{BTreeMap, HashMap};

use typed_nccl_plan::ir::{CommunicatorId, Role};

use crate::instance::Instance;
use crate::link::{Linked, Object};
use crate::machine::Event;
use crate::unit::{Act, Known, Span};
use crate::value::{Value, collect, hash, reduce};

pub(crate) struct Memory<'a> {
    linked: &'a Linked<'a>,
    /// Whether writes are torn; without, undefined elements stay so until they are written.
    tear: bool,
    pub(crate) objects: BTreeMap<Object, Vec<Value>>,
    /// What the operations of running units read.
    read: HashMap<usize, Vec<Vec<Value>>>,
    messages: HashMap<(usize, usize), Vec<Value>>,
    /// What members sent into a collective, by their place.
    gathered: HashMap<(usize, usize), Vec<Vec<Value>>>,
    /// Puts on their way, by the node at whose end they land.
    flying: HashMap<usize, Vec<(usize, Vec<Value>)>>,
    consumers: HashMap<(usize, usize), usize>,
    /// The puts of each node.
    puts: HashMap<usize, Vec<usize>>,
    /// The first read of what nobody wrote.
    pub(crate) undefined: Option<String>,
    /// The first sign of a race.
    pub(crate) torn: Option<String>,
}

/// What is in memory before a plan runs: what the caller left in inputs, in their current copies.
pub(crate) fn initial(instance: &Instance<'_>) -> BTreeMap<Object, Vec<Value>> {
    let mut objects = BTreeMap::new();
    for rank in 0..instance.ranks() {
        for (buffer, at, len) in instance.allocations(rank) {
            let declared = &instance.plan.buffers[buffer];
            for copy in 0..usize::from(declared.copies.max(1)) {
                let object = Object { rank, buffer, at, copy };
                let given = copy == 0 && matches!(declared.role, Role::In | Role::InOut);
                let value = |place: usize| match given {
                    true => Value::Plain(hash((object, place))),
                    false => Value::Undefined(hash((object, place))),
                };
                objects.insert(object, (0..len).map(value).collect());
            }
        }
    }
    objects
}

impl<'a> Memory<'a> {
    pub(crate) fn new(linked: &'a Linked<'a>, tear: bool) -> Self {
        let mut consumers = HashMap::new();
        for (id, node) in linked.nodes.iter().enumerate() {
            for one in &node.consumes {
                consumers.extend((one.from..one.to).map(|at| ((one.queue, at), id)));
            }
        }
        let mut puts: HashMap<usize, Vec<usize>> = HashMap::new();
        for (at, put) in linked.puts.iter().enumerate() {
            puts.entry(put.node).or_default().push(at);
        }
        Self {
            linked,
            tear,
            objects: initial(linked.instance),
            read: HashMap::new(),
            messages: HashMap::new(),
            gathered: HashMap::new(),
            flying: HashMap::new(),
            consumers,
            puts,
            undefined: None,
            torn: None,
        }
    }

    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Start(node) => self.start(node),
            Event::End(node) => self.end(node),
        }
    }

    fn load(&self, rank: usize, run: usize, span: &Span) -> Vec<Value> {
        let object = self.linked.object(rank, run, span);
        let values = self.objects.get(&object);
        values.and_then(|values| values.get(span.from..span.to)).unwrap_or(&[]).to_vec()
    }

    /// What an operation of a rank reads, here and elsewhere.
    fn loads(&self, reads: &[(Option<usize>, Span)], (rank, run): (usize, usize)) -> Vec<Value> {
        let load = |(of, span): &(Option<usize>, Span)| self.load(of.unwrap_or(rank), run, span);
        reads.iter().flat_map(load).collect()
    }

    /// `torn` is what must still be there if nobody else wrote.
    fn expect(&mut self, place: (usize, usize), span: &Span, torn: Value) {
        if self.tear && self.load(place.0, place.1, span).iter().any(|value| *value != torn) {
            self.torn.get_or_insert_with(|| format!("{place:?}: {span:?} was written meanwhile"));
        }
    }

    /// Writes values.
    fn store(&mut self, place: (usize, usize), span: &Span, values: &[Value]) {
        let object = self.linked.object(place.0, place.1, span);
        let Some(here) = self.objects.get_mut(&object) else { return };
        let Some(here) = here.get_mut(span.from..span.to) else { return };
        for (at, value) in here.iter_mut().enumerate() {
            *value = values.get(at).copied().unwrap_or(Value::Undefined(0));
        }
    }

    fn tear(&mut self, place: (usize, usize), span: &Span, torn: Value) {
        let object = self.linked.object(place.0, place.1, span);
        let Some(here) = self.objects.get_mut(&object) else { return };
        if self.tear
            && let Some(here) = here.get_mut(span.from..span.to)
        {
            here.fill(torn);
        }
    }

    fn start(&mut self, id: usize) {
        let node = &self.linked.nodes[id];
        let place = (node.rank, node.run);
        let unit = self.linked.unit(id);
        let mut read = Vec::new();
        for op in &unit.ops {
            let reads = op.loads();
            let values: Vec<Value> = self.loads(&reads, place);
            if values.iter().any(|value| matches!(value, Value::Undefined(_))) {
                let name =
                    || format!("{} reads what nobody wrote: {reads:?}", self.linked.name(id));
                self.undefined.get_or_insert_with(name);
            }
            if values.iter().any(|value| matches!(value, Value::Torn(_))) {
                let name = || format!("{} reads what is being written", self.linked.name(id));
                self.torn.get_or_insert_with(name);
            }
            read.push(values);
        }
        let (mut sends, mut joins) = (node.sends.iter(), node.joins.iter());
        let mut puts = self.puts.get(&id).cloned().unwrap_or_default().into_iter();
        for (op, values) in unit.ops.iter().zip(&read) {
            match &op.act {
                Act::Send { .. } => {
                    if let Some(one) = sends.next() {
                        self.messages.insert((one.queue, one.place), values.clone());
                    }
                }
                Act::Collective { .. } => {
                    if let (Some(one), Some(me)) = (joins.next(), self.member(id, op.among)) {
                        let parts = self.gathered.entry((one.queue, one.place)).or_default();
                        parts.resize(self.linked.gatherings[one.queue].members, Vec::new());
                        parts[me.0] = values.clone();
                    }
                }
                Act::Put { to, peer, .. } => {
                    let Some(put) = puts.next() else { continue };
                    let told = self.linked.puts[put].told;
                    let lands = told.and_then(|told| self.consumers.get(&(told.queue, told.place)));
                    let lands = lands.copied().unwrap_or(usize::MAX);
                    self.flying.entry(lands).or_default().push((put, values.clone()));
                    self.tear((*peer, node.run), to, Value::Torn(hash(("put", put))));
                }
                _ => {}
            }
        }
        for op in &unit.ops {
            for span in op.touches().1 {
                self.tear(place, &span, Value::Torn(hash(id)));
            }
        }
        self.read.insert(id, read);
    }

    fn member(&self, node: usize, among: Option<usize>) -> Option<(usize, &'a [usize])> {
        let rank = self.linked.nodes[node].rank;
        let among = CommunicatorId(u32::try_from(among?).ok()?);
        let members = self.linked.instance.members(among, rank).ok()?;
        Some((members.iter().position(|&one| one == rank)?, members))
    }

    fn end(&mut self, id: usize) {
        let node = &self.linked.nodes[id];
        let place = (node.rank, node.run);
        let unit = self.linked.unit(id);
        let read = self.read.remove(&id).unwrap_or_default();
        let torn = Value::Torn(hash(id));
        for (op, before) in unit.ops.iter().zip(&read) {
            let now = self.loads(&op.loads(), place).into_iter();
            let own = |put: &usize| Value::Torn(hash(("put", *put)));
            let own: Vec<Value> = self.puts.get(&id).into_iter().flatten().map(own).collect();
            if now.zip(before).any(|(now, then)| now != *then && now != torn && !own.contains(&now))
            {
                let name = || format!("{} reads what changes", self.linked.name(id));
                self.torn.get_or_insert_with(name);
            }
        }
        for span in unit.ops.iter().flat_map(|op| op.touches().1) {
            self.expect(place, &span, torn);
        }
        let (mut receives, mut joins) = (node.receives.iter(), node.joins.iter());
        for (op, values) in unit.ops.iter().zip(&read) {
            match &op.act {
                Act::Compute { name, reads, writes, known } => {
                    for (number, span) in writes.iter().enumerate() {
                        let made = |at| Value::Plain(hash((name, values, number, at)));
                        let made: Vec<Value> = (span.from..span.to).map(made).collect();
                        self.store(place, span, &made);
                    }
                    for one in known {
                        self.leave(place, one, reads, values);
                    }
                }
                Act::Assign { to, by, of } => {
                    let mut left = values.as_slice();
                    let part = |(_, span): &(Option<usize>, Span)| {
                        let (part, rest) = left.split_at((span.to - span.from).min(left.len()));
                        left = rest;
                        part
                    };
                    let parts: Vec<&[Value]> = of.iter().map(part).collect();
                    let made = (0..to.to - to.from).map(|at| {
                        reduce(*by, parts.iter().filter_map(|part| part.get(at).copied()))
                    });
                    let made: Vec<Value> = made.collect();
                    self.store(place, to, &made);
                }
                Act::Receive { to, .. } => {
                    let message = receives.next().map(|one| (one.queue, one.place));
                    let message = message.and_then(|at| self.messages.remove(&at));
                    self.store(place, to, &message.unwrap_or_default());
                }
                Act::Collective { kind, root, recv, count, .. } => {
                    let Some(one) = joins.next() else { continue };
                    let Some((me, members)) = self.member(id, op.among) else { continue };
                    let root = root.and_then(|root| members.iter().position(|&one| one == root));
                    let count = usize::try_from(*count).unwrap_or(0);
                    let sent = self.gathered.get(&(one.queue, one.place));
                    let sent = sent.map_or(&[][..], Vec::as_slice);
                    let made = collect(kind, root, me, count, sent);
                    if let (Some(made), Some(recv)) = (made, recv) {
                        self.store(place, recv, &made);
                    }
                }
                _ => {}
            }
        }
        for (put, values) in self.flying.remove(&id).unwrap_or_default() {
            self.land(put, &values);
        }
    }

    /// Writes what the plan says that a step leaves, of what it read at its start.
    fn leave(&mut self, place: (usize, usize), known: &Known, reads: &[Span], values: &[Value]) {
        let read = |span: &Span| {
            let nth = reads.iter().position(|one| one == span).unwrap_or(0);
            let before: usize = reads[..nth].iter().map(|one| one.to - one.from).sum();
            values[before..].iter().take(span.to - span.from).copied().collect::<Vec<_>>()
        };
        let from: Vec<Vec<Value>> =
            known.from.iter().map(|spans| spans.iter().flat_map(read).collect()).collect();
        let mut at = 0;
        for span in &known.to {
            let made = (at..at + (span.to - span.from)).map(|at| {
                let parts = from.iter().filter_map(|part: &Vec<Value>| part.get(at).copied());
                reduce(known.by, parts)
            });
            let made: Vec<Value> = made.collect();
            at += made.len();
            self.store(place, span, &made);
        }
    }

    fn land(&mut self, put: usize, values: &[Value]) {
        let landing = &self.linked.puts[put];
        let run = self.linked.nodes[landing.node].run;
        if let Act::Put { to, peer, .. } = &self.linked.unit(landing.node).ops[landing.op].act {
            self.expect((*peer, run), to, Value::Torn(hash(("put", put))));
            self.store((*peer, run), to, values);
        }
    }

    /// The memory at the end, when all that flies has landed.
    pub(crate) fn finish(mut self) -> Self {
        let left: Vec<_> = std::mem::take(&mut self.flying).into_values().flatten().collect();
        for (put, values) in left {
            self.land(put, &values);
        }
        self
    }
}
