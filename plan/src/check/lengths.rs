//! Lengths, ranges and overlaps, for every size: what the structure of a plan does not decide.
//!
//! Instances were checked one by one before; here what they found is proved for all others.

use std::collections::{HashMap, HashSet};

use super::scale;
use crate::arith::{Facts, Poly, Span, View};
use crate::ir::{
    AxisId, BufferId, Collective, CollectiveKind, Coverage, Expr, Hop, Location, Peer, Plan,
    Region, Role, Step, StepKind,
};
use crate::verdict::{Check, Problem, ProblemKind};

/// Where a region stands: the statement's number, and which of its regions.
pub(crate) type Where = (u32, u16);

/// A region as it is written, with the loops around it, and the peer that it is put at.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Kind<'a> {
    region: Option<&'a Region>,
    peer: Option<&'a Peer>,
    is_put: bool,
    loops: Vec<&'a crate::ir::Loop>,
}

/// A region of a statement, seen from the rank whose memory it is in.
struct Seen<'a> {
    region: &'a Region,
    /// The rank that computes it, and its iterations.
    view: View,
    writes: bool,
    at: Location,
    /// The operation within a group.
    leaf: u32,
}

/// The proofs of a plan.
pub(crate) struct Lengths<'a> {
    plan: &'a Plan,
    problems: Vec<Problem>,
    number: u32,
    /// What a statement's regions are, for comparing puts.
    regions: HashMap<Where, &'a Region>,
    /// Statements whose regions are within loops: the loops, outermost first.
    loops: HashMap<u32, Vec<&'a crate::ir::Loop>>,
    around: Vec<&'a crate::ir::Loop>,
    /// The peer of each statement that puts.
    peers: HashMap<u32, &'a Peer>,
    /// The peer of each statement that puts, or that sends in the global view.
    senders: HashMap<u32, &'a Peer>,
    collectives: HashSet<u32>,
    fixed: Fixed,
}

/// Which names always mean the same number, or one that was checked.
struct Fixed {
    params: Vec<bool>,
    axes: Vec<bool>,
}

impl<'a> Lengths<'a> {
    /// Proves what there is to prove; what could not be is among [`problems`](Self::problems).
    ///
    /// `axes` and `params` are those whose values were all checked one by one.
    pub(crate) fn prove(plan: &'a Plan, axes: Vec<bool>, params: Vec<bool>) -> Self {
        let mut proof = Self {
            plan,
            problems: Vec::new(),
            number: 0,
            regions: HashMap::new(),
            loops: HashMap::new(),
            around: Vec::new(),
            peers: HashMap::new(),
            senders: HashMap::new(),
            collectives: HashSet::new(),
            fixed: Fixed { params, axes },
        };
        let mut facts = Facts::of(plan);
        let rank = facts.rank();
        for buffer in &plan.buffers {
            proof.buffer(buffer, &facts);
        }
        proof.steps(&plan.steps, &facts, &rank, &mut None);
        let listed = !proof.fixed.axes.contains(&false);
        let alike = listed && scale::by_one(plan, &proof.fixed.params).is_some();
        let bounded = listed && !proof.fixed.params.contains(&false);
        for claim in plan.computes.iter().filter(|_| !alike && !bounded) {
            let undecided = "what is computed cannot be followed for every size";
            proof.undecided(Check::Postcondition, claim.at, undecided, LIST);
        }
        proof.initialised();
        proof
    }

    /// What a region is by how it is written: regions of one kind are the same elements.
    pub(crate) fn kind(&self, at: Where, is_put: bool) -> Kind<'a> {
        Kind {
            region: self.regions.get(&at).copied(),
            peer: if is_put { self.peers.get(&at.0).copied() } else { None },
            is_put,
            loops: self.loops.get(&at.0).cloned().unwrap_or_default(),
        }
    }

    pub(crate) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether the target of a put may have elements in common with another region of the same object, for
    /// some sizes, though it had none at those that were looked at.
    pub(crate) fn may_overlap(&self, put: Where, other: Where, other_is_put: bool) -> bool {
        let (Some(&target), Some(&region)) = (self.regions.get(&put), self.regions.get(&other))
        else {
            return true;
        };
        if self.is_fixed(target, put.0) && self.is_fixed(region, other.0) {
            return false;
        }
        let mut facts = Facts::of(self.plan);
        // The rank into whose window is put, and who puts there.
        let owner = facts.rank();
        let from = |facts: &mut Facts, statement: u32, owner: &View| -> Option<View> {
            match self.peers.get(&statement) {
                Some(Peer::Shift(hops)) => Some(facts.hop(owner, &backwards(hops))),
                Some(Peer::Rank(_)) => None,
                None => Some(owner.clone()),
            }
        };
        let Some(source) = from(&mut facts, put.0, &owner) else { return true };
        let reader = if other_is_put { from(&mut facts, other.0, &owner) } else { Some(owner) };
        let Some(reader) = reader else { return true };
        let source = self.iterations(&mut facts, put.0, source);
        let reader = self.iterations(&mut facts, other.0, reader);
        let (Some(a), Some(b)) =
            (self.span(&facts, target, &source), self.span(&facts, region, &reader))
        else {
            return true;
        };
        !facts.disjoint(&a, &b)
    }

    /// Whether a declared region is filled by these, one after another, at every size: receives and puts in
    /// the order in which they lie.
    pub(crate) fn covers(&self, covered: &Coverage, parts: &[(Where, bool)]) -> bool {
        let mut facts = Facts::of(self.plan);
        let owner = facts.rank();
        let Some(whole) = self.span(&facts, &covered.region, &owner) else { return false };
        let mut at = whole.start.clone();
        for &(part, is_computed_by_sender) in parts {
            let Some(&region) = self.regions.get(&part) else { return false };
            if self.loops.get(&part.0).is_some_and(|loops| !loops.is_empty()) {
                return false;
            }
            let view = match self.senders.get(&part.0) {
                Some(Peer::Shift(hops)) if is_computed_by_sender => {
                    facts.hop(&owner, &backwards(hops))
                }
                _ if is_computed_by_sender => return false,
                _ => owner.clone(),
            };
            let Some(span) = self.span(&facts, region, &view) else { return false };
            if !facts.equal(&at, &span.start) {
                return false;
            }
            at = span.end;
        }
        facts.equal(&at, &whole.end)
    }

    fn iterations(&self, facts: &mut Facts, statement: u32, mut view: View) -> View {
        for around in self.loops.get(&statement).into_iter().flatten() {
            view = facts.enter(&view, around);
        }
        view
    }

    fn undecided(&mut self, check: Check, at: Location, title: &str, help: &str) {
        let kind = ProblemKind::Undecided(check);
        if self.problems.iter().any(|problem| problem.kind == kind && problem.at == at) {
            return;
        }
        self.problems.push(Problem {
            kind,
            title: title.to_owned(),
            at,
            sizes: None,
            story: Vec::new(),
            help: vec![help.to_owned(), LIST.to_owned()],
        });
        self.problems.last_mut().into_iter().for_each(|problem| problem.help.dedup());
    }

    /// Whether an expression means only numbers that were all looked at.
    fn is_looked_at(&self, expr: &Expr) -> bool {
        let Fixed { params, axes } = &self.fixed;
        !expr.any(|part| match part {
            Expr::Param(id) | Expr::Element(id, _) => !params[id.index()],
            Expr::Extent(axis) | Expr::Coordinate(axis) => !axes[axis.index()],
            Expr::Size | Expr::Rank => axes.contains(&false),
            // A counter's values are those of its loop, whose bounds are structure.
            _ => false,
        })
    }

    /// Whether a region of a statement is the same elements, or all of them, at every size that was not
    /// looked at.
    fn is_fixed(&self, region: &Region, statement: u32) -> bool {
        let len = &self.plan.buffers[region.buffer.index()].len;
        let looked_at = |expr: &Expr| self.is_looked_at(expr) && !self.counts(expr, statement);
        match &region.range {
            None => true,
            Some((start, end)) => looked_at(start) && looked_at(end) && self.is_looked_at(len),
        }
    }

    /// Whether an expression counts the iterations of a loop of which only the first were looked at.
    fn counts(&self, expr: &Expr, statement: u32) -> bool {
        self.loops.get(&statement).into_iter().flatten().any(|around| {
            !(self.is_looked_at(&around.from) && self.is_looked_at(&around.to))
                && expr.any(|part| *part == Expr::Loop(around.counter))
        })
    }

    fn buffer(&mut self, buffer: &'a crate::ir::Buffer, facts: &Facts) {
        let mut facts = facts.clone();
        let mut view = View::uniform();
        if let Some(array) = &buffer.array {
            let count = facts.poly(&array.count, &view);
            if !self.is_looked_at(&array.count) && !facts.prove_non_negative(&count) {
                let title = format!("`{}` may have fewer than no buffers", buffer.name);
                self.undecided(Check::Bounds, buffer.at, &title, PROMISE);
            }
            view = facts.index(&view, array.index, &count);
        }
        let len = facts.poly(&buffer.len, &view);
        let fine = facts.has_value(&buffer.len, &view) && facts.prove_non_negative(&len);
        if !self.is_looked_at(&buffer.len) && !fine {
            let title = format!("`{}` may have a length below 0, or none", buffer.name);
            self.undecided(Check::Bounds, buffer.at, &title, PROMISE);
        }
    }

    fn steps(
        &mut self,
        steps: &'a [Step],
        facts: &Facts,
        view: &View,
        group: &mut Option<Vec<Seen<'a>>>,
    ) {
        for step in steps {
            let number = self.number;
            self.number += 1;
            match &step.kind {
                StepKind::Loop(this) => {
                    let mut facts = facts.clone();
                    let inside = facts.enter(view, this);
                    self.around.push(this);
                    let Some(outer) = group else {
                        self.steps(&this.body, &facts, &inside, &mut None);
                        self.around.pop();
                        continue;
                    };
                    let first = self.number;
                    let mut one = Some(Vec::new());
                    self.steps(&this.body, &facts, &inside, &mut one);
                    // Another iteration of the same group.
                    let mut apart = facts.clone();
                    let other = apart.enter(view, this);
                    let counter = Expr::Loop(this.counter);
                    apart.assume_different(
                        &facts.poly(&counter, &inside),
                        &facts.poly(&counter, &other),
                    );
                    self.number = first;
                    let mut two = Some(Vec::new());
                    self.steps(&this.body, &apart, &other, &mut two);
                    self.around.pop();
                    let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
                    self.aliases(&one, &facts);
                    for a in &one {
                        for b in &two {
                            self.alias(a, b, &apart);
                        }
                    }
                    outer.extend(one);
                }
                StepKind::When(this) => {
                    let mut facts = facts.clone();
                    facts.assume(&this.condition, view);
                    self.steps(&this.body, &facts, view, group);
                }
                StepKind::Group(body) => {
                    let mut inside = Some(Vec::new());
                    self.steps(body, facts, view, &mut inside);
                    self.aliases(&inside.unwrap_or_default(), facts);
                }
                StepKind::Sequence(body) => self.steps(body, facts, view, &mut None),
                _ => {
                    self.loops.insert(number, self.around.clone());
                    let mut own = Vec::new();
                    self.leaf(number, step, facts, view, &mut own);
                    match group {
                        Some(group) => group.extend(own),
                        None => self.aliases(&own, facts),
                    }
                }
            }
        }
    }

    /// Proves that a region lies inside its buffer.
    fn inside(&mut self, number: u32, region: &Region, facts: &Facts, view: &View, at: Location) {
        let buffer = &self.plan.buffers[region.buffer.index()];
        if let (Some(array), Some(index)) = (&buffer.array, &region.index) {
            let count = facts.poly(&array.count, view);
            let value = facts.poly(index, view);
            let looked_at = self.is_looked_at(index)
                && self.is_looked_at(&array.count)
                && !self.counts(index, number);
            let proved = || {
                facts.has_value(index, view)
                    && facts.at_most(&Poly::zero(), &value)
                    && facts.less(&value, &count)
            };
            if !looked_at && !proved() {
                let title = format!(
                    "whether `{}` has a buffer {} cannot be decided for every size",
                    buffer.name,
                    self.plan.show(index)
                );
                self.undecided(Check::Bounds, at, &title, PROMISE);
            }
        }
        let Some((start, end)) = &region.range else { return };
        if self.is_fixed(region, number) {
            return;
        }
        let valued = facts.has_value(start, view) && facts.has_value(end, view);
        let proved = match (self.span(facts, region, view), self.whole(facts, region, view)) {
            (Some(part), Some(whole)) => {
                facts.contained(&part, &whole) && facts.at_most(&part.start, &part.end)
            }
            _ => false,
        };
        if !(valued && proved) {
            let title = format!(
                "whether {} .. {} lies inside `{}` cannot be decided for every size",
                self.plan.show(start),
                self.plan.show(end),
                buffer.name
            );
            self.undecided(Check::Bounds, at, &title, PROMISE);
        }
    }

    fn whole(&self, facts: &Facts, region: &Region, view: &View) -> Option<Span> {
        let buffer = &self.plan.buffers[region.buffer.index()];
        let mut uniform = View::uniform();
        if let Some(array) = &buffer.array {
            let index = facts.poly(region.index.as_ref()?, view);
            uniform = uniform.with(array.index, index);
        }
        Some(Span::to(facts.poly(&buffer.len, &uniform)))
    }

    fn span(&self, facts: &Facts, region: &Region, view: &View) -> Option<Span> {
        match &region.range {
            None => self.whole(facts, region, view),
            Some((start, end)) => Some(Span::new(facts.poly(start, view), facts.poly(end, view))),
        }
    }

    fn len(&self, facts: &Facts, region: &Region, view: &View) -> Option<Poly> {
        self.span(facts, region, view).map(|span| span.len())
    }

    /// Proves that two regions have one length.
    fn alike(
        &mut self,
        number: u32,
        (a, a_view): (&Region, &View),
        (b, b_view): (&Region, &View),
        facts: &Facts,
        at: Location,
    ) {
        let lens = (self.len(facts, a, a_view), self.len(facts, b, b_view));
        let fixed = |region: &Region| {
            let len = &self.plan.buffers[region.buffer.index()].len;
            self.is_fixed(region, number) && (region.range.is_some() || self.is_looked_at(len))
        };
        if fixed(a) && fixed(b) {
            return;
        }
        if !matches!(&lens, (Some(a), Some(b)) if facts.equal(a, b)) {
            let title = "whether both sides have one length cannot be decided for every size";
            self.undecided(Check::Agreement, at, title, PROMISE);
        }
    }

    fn leaf(
        &mut self,
        number: u32,
        step: &'a Step,
        facts: &Facts,
        view: &View,
        seen: &mut Vec<Seen<'a>>,
    ) {
        let at = step.at;
        let leaf = number;
        let mut see = |region: &'a Region, view: &View, writes: bool| {
            seen.push(Seen { region, view: view.clone(), writes, at, leaf });
        };
        match &step.kind {
            StepKind::Compute(this) => {
                for (part, region) in (0..).zip(this.reads.iter().chain(&this.writes)) {
                    if region.index.is_some()
                        || self.plan.buffers[region.buffer.index()].array.is_none()
                    {
                        self.inside(number, region, facts, view, at);
                    }
                    self.regions.insert((number, part), region);
                }
            }
            StepKind::Collective(this) => {
                self.inside(number, &this.send, facts, view, at);
                self.inside(number, &this.recv, facts, view, at);
                self.regions.insert((number, 0), &this.send);
                self.regions.insert((number, 1), &this.recv);
                self.collectives.insert(number);
                self.collective(number, this, facts, view, at);
                see(&this.send, view, false);
                see(&this.recv, view, true);
            }
            StepKind::Transfer(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.from, &facts, view, at);
                self.inside(number, &this.to, &facts, view, at);
                self.alike(number, (&this.from, view), (&this.to, view), &facts, at);
                self.regions.insert((number, 0), &this.from);
                self.regions.insert((number, 1), &this.to);
                self.senders.insert(number, &this.peer);
                see(&this.from, view, false);
                if let Peer::Shift(hops) = &this.peer {
                    // What this rank receives is computed by the one that sends it.
                    let sender = facts.hop(view, &backwards(hops));
                    see(&this.to, &sender, true);
                }
            }
            StepKind::Send(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.from, &facts, view, at);
                self.regions.insert((number, 0), &this.from);
                see(&this.from, view, false);
            }
            StepKind::Receive(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.to, &facts, view, at);
                self.regions.insert((number, 1), &this.to);
                see(&this.to, view, true);
            }
            StepKind::Put(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.from, &facts, view, at);
                self.inside(number, &this.to, &facts, view, at);
                self.alike(number, (&this.from, view), (&this.to, view), &facts, at);
                self.regions.insert((number, 0), &this.from);
                self.regions.insert((number, 1), &this.to);
                self.peers.insert(number, &this.peer);
                self.senders.insert(number, &this.peer);
                see(&this.from, view, false);
            }
            _ => {}
        }
    }

    /// Proves that a collective's two regions fit, on every rank alike, and that it runs in place where it
    /// should.
    fn collective(
        &mut self,
        number: u32,
        this: &Collective,
        facts: &Facts,
        view: &View,
        at: Location,
    ) {
        let (Some(send), Some(recv)) =
            (self.span(facts, &this.send, view), self.span(facts, &this.recv, view))
        else {
            return self.undecided(Check::Agreement, at, "a region of no known length", PROMISE);
        };
        let among = &self.plan.communicators[this.among.index()];
        let size = among.axes.iter().fold(Poly::from(1), |size, &axis| &size * &facts.extent(axis));
        let (sent, received) = (send.len(), recv.len());
        let fits = match this.kind {
            CollectiveKind::AllReduce(_)
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Reduce(..) => facts.equal(&sent, &received),
            CollectiveKind::AllGather | CollectiveKind::Gather(_) => {
                facts.equal(&received, &(&size * &sent))
            }
            CollectiveKind::ReduceScatter(_) | CollectiveKind::Scatter(_) => {
                facts.equal(&sent, &(&size * &received))
            }
            CollectiveKind::AllToAll => facts.equal(&sent, &received),
        };
        let looked_at = |region: &Region| {
            let len = &self.plan.buffers[region.buffer.index()].len;
            self.is_looked_at(len) && self.is_fixed(region, number)
        };
        let sizes_looked_at = among.axes.iter().all(|axis| self.fixed.axes[axis.index()]);
        let all = looked_at(&this.send) && looked_at(&this.recv) && sizes_looked_at;
        if !fits && !all {
            let title =
                "whether the regions of this collective fit cannot be decided for every size";
            self.undecided(Check::Agreement, at, title, PROMISE);
        }
        // The same on another rank.
        let mut other_facts = facts.clone();
        let other = other_facts.rank();
        let other = self.around.iter().fold(other, |other, around| {
            other.with(around.counter, facts.poly(&Expr::Loop(around.counter), view))
        });
        let theirs = self.len(&other_facts, &this.send, &other);
        let same = theirs.is_some_and(|theirs| other_facts.equal(&theirs, &sent));
        if !same && !all {
            let title = "whether all ranks give this collective one length cannot be decided";
            self.undecided(Check::Agreement, at, title, PROMISE);
        }
        self.in_place(this, (&send, &recv), facts, view, at, all);
    }

    fn in_place(
        &mut self,
        this: &Collective,
        (send, recv): (&Span, &Span),
        facts: &Facts,
        view: &View,
        at: Location,
        all: bool,
    ) {
        let same_object = this.send.buffer == this.recv.buffer && this.send.next == this.recv.next;
        if !same_object || all || facts.disjoint(send, recv) {
            return;
        }
        let axes = &self.plan.communicators[this.among.index()].axes;
        let index = axes.iter().fold(Poly::zero(), |index, &axis: &AxisId| {
            &(&index * &facts.extent(axis)) + &view.coordinate(axis)
        });
        let right = match this.kind {
            CollectiveKind::AllReduce(_)
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Reduce(..) => facts.same(send, recv),
            CollectiveKind::AllGather | CollectiveKind::Gather(_) => {
                facts.equal(&send.start, &(&recv.start + &(&index * &send.len())))
            }
            CollectiveKind::ReduceScatter(_) | CollectiveKind::Scatter(_) => {
                facts.equal(&recv.start, &(&send.start + &(&index * &recv.len())))
            }
            CollectiveKind::AllToAll => false,
        };
        // Other buffers of one array are other memory.
        let other_index = match (&this.send.index, &this.recv.index) {
            (Some(a), Some(b)) => facts.different(&facts.poly(a, view), &facts.poly(b, view)),
            _ => false,
        };
        if !right && !other_index {
            let title = "whether this collective runs at its own place cannot be decided";
            self.undecided(
                Check::Initialised,
                at,
                title,
                "rank r's part begins at r times its length",
            );
        }
    }

    /// Proves that operations of one group do not touch the same elements where one writes.
    fn aliases(&mut self, seen: &[Seen<'_>], facts: &Facts) {
        for (i, a) in seen.iter().enumerate() {
            for b in &seen[i + 1..] {
                // A collective's own two regions are its own matter.
                if a.leaf != b.leaf || !self.collectives.contains(&a.leaf) {
                    self.alias(a, b, facts);
                }
            }
        }
    }

    fn alias(&mut self, a: &Seen<'_>, b: &Seen<'_>, facts: &Facts) {
        if a.region.buffer != b.region.buffer
            || a.region.next != b.region.next
            || !(a.writes || b.writes)
            || (self.is_fixed(a.region, a.leaf) && self.is_fixed(b.region, b.leaf))
        {
            return;
        }
        let elsewhere = match (&a.region.index, &b.region.index) {
            (Some(x), Some(y)) => facts.different(&facts.poly(x, &a.view), &facts.poly(y, &b.view)),
            _ => false,
        };
        let spans = (self.span(facts, a.region, &a.view), self.span(facts, b.region, &b.view));
        if elsewhere || matches!(spans, (Some(x), Some(y)) if facts.disjoint(&x, &y)) {
            return;
        }
        let name = &self.plan.buffers[a.region.buffer.index()].name;
        let title = format!(
            "whether two operations of a group touch the same elements of `{name}` cannot be decided for \
             every size"
        );
        self.undecided(Check::Groups, b.at, &title, PROMISE);
    }

    /// What is read was written: proved where one earlier write holds all of it.
    fn initialised(&mut self) {
        let mut found: Vec<(Check, Location, String)> = Vec::new();
        let mut writes: HashMap<BufferId, Vec<(u32, &Region)>> = HashMap::new();
        let mut reads: Vec<(u32, &Region, Location)> = Vec::new();
        let mut number = 0;
        accesses(&self.plan.steps, &mut number, &mut |number, region, is_write, at| {
            if is_write {
                writes.entry(region.buffer).or_default().push((number, region));
            } else {
                reads.push((number, region, at));
            }
        });
        for (number, region, at) in reads {
            let buffer = &self.plan.buffers[region.buffer.index()];
            if matches!(buffer.role, Role::In | Role::InOut)
                || self.is_fixed(region, number) && {
                    let all = writes.get(&region.buffer);
                    all.is_none_or(|all| all.iter().all(|&(at, write)| self.is_fixed(write, at)))
                }
            {
                continue;
            }
            let mut facts = Facts::of(self.plan);
            let rank = facts.rank();
            let view = self.iterations(&mut facts, number, rank.clone());
            let held = writes.get(&region.buffer).into_iter().flatten().any(|&(writer, write)| {
                if write.range.is_none() {
                    return true;
                }
                // The writer's iterations of the loops that both are in are the reader's.
                let mut facts = facts.clone();
                let mut theirs = view.clone();
                let own = self.loops.get(&number);
                for around in self.loops.get(&writer).into_iter().flatten() {
                    let shared = own.into_iter().flatten().any(|own| std::ptr::eq(*own, *around));
                    if !shared {
                        theirs = facts.enter(&theirs, around);
                    }
                }
                let spans = (self.span(&facts, region, &view), self.span(&facts, write, &theirs));
                matches!(spans, (Some(read), Some(write)) if facts.contained(&read, &write))
            });
            if !held {
                let title = format!(
                    "whether all of what is read of `{}` was written cannot be decided for every size",
                    buffer.name
                );
                found.push((Check::Initialised, at, title));
            }
        }
        for (check, at, title) in found {
            self.undecided(
                check,
                at,
                &title,
                "write it as a whole before, or let the caller fill it",
            );
        }
    }
}

const LIST: &str = "declare the ranks and the parameters as lists or ranges: then each is checked";
const PROMISE: &str = "say with `where` what the parameters promise";

/// All regions of a plan that are read or written on the rank that names them, with the statements' numbers.
fn accesses<'a>(
    steps: &'a [Step],
    number: &mut u32,
    each: &mut dyn FnMut(u32, &'a Region, bool, Location),
) {
    for step in steps {
        let own = *number;
        *number += 1;
        match &step.kind {
            StepKind::Loop(this) => accesses(&this.body, number, each),
            StepKind::When(this) => accesses(&this.body, number, each),
            StepKind::Group(body) | StepKind::Sequence(body) => accesses(body, number, each),
            StepKind::Compute(this) => {
                this.reads.iter().for_each(|region| each(own, region, false, step.at));
                this.writes.iter().for_each(|region| each(own, region, true, step.at));
            }
            StepKind::Collective(this) => {
                each(own, &this.send, false, step.at);
                each(own, &this.recv, true, step.at);
            }
            StepKind::Transfer(this) => {
                each(own, &this.from, false, step.at);
                each(own, &this.to, true, step.at);
            }
            StepKind::Send(this) => each(own, &this.from, false, step.at),
            StepKind::Receive(this) => each(own, &this.to, true, step.at),
            StepKind::Put(this) => {
                each(own, &this.from, false, step.at);
                each(own, &this.to, true, step.at);
            }
            StepKind::Signal(_) | StepKind::Wait(_) => {}
        }
    }
}

fn hop(facts: &mut Facts, view: &View, peer: &Peer) -> Option<View> {
    match peer {
        Peer::Shift(hops) => Some(facts.hop(view, hops)),
        Peer::Rank(_) => None,
    }
}

fn backwards(hops: &[Hop]) -> Vec<Hop> {
    let back = |hop: &Hop| Hop { by: Expr::Int(0) - hop.by.clone(), ..hop.clone() };
    hops.iter().map(back).collect()
}
