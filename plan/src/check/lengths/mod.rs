//! Lengths, ranges and overlaps, for every size: what the structure of a plan does not decide.
//!
//! Instances were checked one by one before; here what they found is proved for all others.

mod aliases;
mod arguments;
mod chunks;
mod collective;
mod places;
mod written;

use std::collections::{HashMap, HashSet};

use super::coverage::Parts;
use super::scale;
use crate::arith::{Facts, Fuel, Poly, Span, View};
use crate::ir::{Coverage, Expr, Hop, Location, Peer, Plan, Region, Step, StepKind};
use crate::verdict::{Check, Problem, ProblemKind};

/// How many problems are told at most.
const MOST: usize = 100;

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
    /// Whether another rank's conditions decide that it is there: that of the sender, of what is received.
    elsewhere: bool,
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
    /// The length of the first message's half in the local view, and whether all so far are known.
    halves: Option<(Poly, bool)>,
    /// How much each collective sends, if that is the same in all iterations, and whether it was looked at in
    /// all cases.
    sent: HashMap<u32, (Option<Poly>, bool)>,
    /// Collectives that may have no length at some sizes: then they are not issued.
    pub(crate) may_be_empty: HashSet<u32>,
    /// What the plan declares and promises.
    declared: Facts,
    /// What is known whatever the rank is, within a condition on it.
    anywhere: Option<Facts>,
    /// Statements that were looked at first, by the loops and conditions around them and what they say.
    known: HashMap<(u32, &'a StepKind), u32>,
    context: u32,
    contexts: u32,
    fuel: Fuel,
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
    pub(crate) fn prove(plan: &'a Plan, axes: Vec<bool>, params: Vec<bool>, fuel: &Fuel) -> Self {
        let mut facts = Facts::within(plan, fuel);
        let rank = facts.rank();
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
            halves: None,
            sent: HashMap::new(),
            may_be_empty: HashSet::new(),
            declared: facts.clone(),
            anywhere: None,
            known: HashMap::new(),
            context: 0,
            contexts: 0,
            fuel: fuel.clone(),
            fixed: Fixed { params, axes },
        };
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
        if !self.may_prove() {
            return true;
        }
        let mut facts = Facts::within(self.plan, &self.fuel);
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

    /// Whether a declared region is filled by these, one after another, at every size, and by nothing else: receives
    /// and puts in the order in which they lie. What has no element in it at one size is either a part that is
    /// empty there or lies beside the region, and may do otherwise at another size.
    pub(crate) fn covers(&self, covered: &Coverage, parts: &Parts) -> bool {
        let (touching, elsewhere) = (&parts.touching, &parts.elsewhere);
        let is_beside = |of: &(Where, bool)| self.is_beside(covered, *of);
        let all: Vec<_> = touching.iter().map(|(of, _)| *of).collect();
        let empty = touching.iter().filter(|(_, is_empty)| *is_empty).map(|(of, _)| of);
        let filled: Vec<_> =
            touching.iter().filter(|(_, is_empty)| !is_empty).map(|(of, _)| *of).collect();
        let proved = self.follow(covered, &all)
            || (filled.len() < all.len()
                && self.follow(covered, &filled)
                && empty.into_iter().all(is_beside));
        proved && elsewhere.iter().all(is_beside)
    }

    /// Whether these lie one after another, from the start of the region to its end.
    fn follow(&self, covered: &Coverage, parts: &[(Where, bool)]) -> bool {
        if !self.may_prove() {
            return false;
        }
        let mut facts = Facts::within(self.plan, &self.fuel);
        let owner = facts.rank();
        let Some(whole) = self.span(&facts, &covered.region, &owner) else { return false };
        let mut at = whole.start.clone();
        for &(part, is_computed_by_sender) in parts {
            let Some(&region) = self.regions.get(&part) else { return false };
            if self.loops.get(&part.0).is_some_and(|loops| !loops.is_empty()) {
                return false;
            }
            let Some(view) = self.writer(&mut facts, part, is_computed_by_sender, &owner) else {
                return false;
            };
            let Some(span) = self.span(&facts, region, &view) else { return false };
            if !facts.equal(&at, &span.start) {
                return false;
            }
            at = span.end;
        }
        facts.equal(&at, &whole.end)
    }

    /// Whether a receive or a put has no element in common with a declared region, at any size.
    fn is_beside(&self, covered: &Coverage, (part, by_sender): (Where, bool)) -> bool {
        let Some(&region) = self.regions.get(&part) else { return false };
        if region.next != covered.region.next {
            return true;
        }
        // No loops are around the declared region.
        if self.is_known(&covered.region, u32::MAX) && self.is_known(region, part.0) {
            return true;
        }
        if !self.may_prove() {
            return false;
        }
        let mut facts = Facts::within(self.plan, &self.fuel);
        let owner = facts.rank();
        let Some(view) = self.writer(&mut facts, part, by_sender, &owner) else { return false };
        let view = self.iterations(&mut facts, part.0, view);
        let elsewhere = match (&region.index, &covered.region.index) {
            (Some(x), Some(y)) => facts.different(&facts.poly(x, &view), &facts.poly(y, &owner)),
            _ => false,
        };
        let spans = (self.span(&facts, region, &view), self.span(&facts, &covered.region, &owner));
        elsewhere || matches!(spans, (Some(x), Some(y)) if facts.disjoint(&x, &y))
    }

    /// The rank that computes where something is written in the owner's memory.
    fn writer(
        &self,
        facts: &mut Facts,
        part: Where,
        is_computed_by_sender: bool,
        owner: &View,
    ) -> Option<View> {
        match self.senders.get(&part.0) {
            _ if !is_computed_by_sender => Some(owner.clone()),
            Some(Peer::Shift(hops)) => Some(facts.hop(owner, &backwards(hops))),
            _ => None,
        }
    }

    fn iterations(&self, facts: &mut Facts, statement: u32, mut view: View) -> View {
        for around in self.loops.get(&statement).into_iter().flatten() {
            view = facts.enter(&view, around);
        }
        view
    }

    fn undecided(&mut self, check: Check, at: Location, title: &str, help: &str) {
        let kind = ProblemKind::Undecided(check);
        let mut told = self.problems.iter();
        if self.problems.len() >= MOST
            || told.any(|problem| problem.kind == kind && problem.at == at)
        {
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
        if !region.index.as_ref().is_none_or(looked_at) {
            return false;
        }
        match &region.range {
            None => true,
            Some((start, end)) => looked_at(start) && looked_at(end) && self.is_looked_at(len),
        }
    }

    /// Whether a region's length was looked at in all cases.
    fn is_known(&self, region: &Region, statement: u32) -> bool {
        let buffer = &self.plan.buffers[region.buffer.index()];
        let alike = buffer.array.as_ref().is_none_or(|array| {
            self.is_looked_at(&array.count)
                || !buffer.len.any(|part| *part == Expr::Loop(array.index))
        });
        self.is_fixed(region, statement)
            && (region.range.is_some() || (alike && self.is_looked_at(&buffer.len)))
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
            if !self.fuel.take(1) {
                let title = "the proof for every size takes more than what is checked";
                return self.undecided(Check::Bounds, step.at, title, "make the plan smaller");
            }
            let number = self.number;
            self.number += 1;
            match &step.kind {
                StepKind::Loop(this) => {
                    // In a group, the body is looked at twice, and so on inwards.
                    self.fuel.take(64 + 8 * self.around.len() as u64);
                    let mut facts = facts.clone();
                    let inside = facts.enter(view, this);
                    self.around.push(this);
                    let Some(outer) = group else {
                        self.within(|proof| proof.steps(&this.body, &facts, &inside, &mut None));
                        self.around.pop();
                        continue;
                    };
                    let first = self.number;
                    let mut one = Some(Vec::new());
                    self.within(|proof| proof.steps(&this.body, &facts, &inside, &mut one));
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
                    self.within(|proof| proof.steps(&this.body, &apart, &other, &mut two));
                    self.around.pop();
                    let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
                    self.aliases(&one, &facts);
                    for a in &one {
                        if !self.may_compare(two.len(), step.at) {
                            break;
                        }
                        for b in &two {
                            self.alias(a, b, &apart);
                        }
                    }
                    outer.extend(one);
                }
                StepKind::When(this) => {
                    let is_outermost = this.condition.mentions_rank() && self.anywhere.is_none();
                    if is_outermost {
                        self.anywhere = Some(facts.clone());
                    }
                    let mut facts = facts.clone();
                    facts.assume(&this.condition, view);
                    self.within(|proof| proof.steps(&this.body, &facts, view, group));
                    if is_outermost {
                        self.anywhere = None;
                    }
                }
                StepKind::Group(body) => {
                    let mut inside = Some(Vec::new());
                    self.steps(body, facts, view, &mut inside);
                    self.aliases(&inside.unwrap_or_default(), facts);
                }
                StepKind::Sequence(body) => self.steps(body, facts, view, &mut None),
                _ => {
                    self.loops.insert(number, self.around.clone());
                    self.register(number, step);
                    if group.is_none() && self.is_known_already(number, step) {
                        continue;
                    }
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

    /// Another rank, in the same iterations.
    fn another_rank(&self, facts: &mut Facts, view: &View) -> View {
        let other = facts.rank();
        self.around.iter().fold(other, |other, around| {
            other.with(around.counter, facts.poly(&Expr::Loop(around.counter), view))
        })
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
        if self.is_known(a, number) && self.is_known(b, number) {
            return;
        }
        if !matches!(&lens, (Some(a), Some(b)) if facts.equal(a, b)) {
            let title = "whether both sides have one length cannot be decided for every size";
            self.undecided(Check::Agreement, at, title, PROMISE);
        }
    }

    /// Proves that a half in the local view is as long as all others are, on every rank: which one it meets
    /// depends on the order of the calls.
    fn half(&mut self, number: u32, region: &Region, facts: &Facts, view: &View, at: Location) {
        let known = self.is_known(region, number);
        let Some(len) = self.len(facts, region, view) else { return };
        let on_all_ranks = || {
            let mut elsewhere = facts.clone();
            let other = self.another_rank(&mut elsewhere, view);
            let theirs = self.len(&elsewhere, region, &other);
            theirs.is_some_and(|theirs| elsewhere.equal(&theirs, &len))
        };
        if !known && !on_all_ranks() {
            let title =
                "whether messages have one length on all ranks cannot be decided for every size";
            return self.undecided(Check::Agreement, at, title, TRANSFER);
        }
        let Some((other, all_known)) = &mut self.halves else {
            self.halves = Some((len, known));
            return;
        };
        *all_known &= known;
        if !*all_known && !facts.equal(&len, other) {
            let title =
                "whether messages have one length at both ends cannot be decided for every size";
            self.undecided(Check::Agreement, at, title, TRANSFER);
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
            seen.push(Seen { region, view: view.clone(), writes, at, leaf, elsewhere: false });
        };
        match &step.kind {
            StepKind::Compute(this) => {
                for argument in &this.arguments {
                    self.argument(number, argument, facts, view, at);
                }
                for region in this.reads.iter().chain(&this.writes) {
                    if region.index.is_some()
                        || self.plan.buffers[region.buffer.index()].array.is_none()
                    {
                        self.inside(number, region, facts, view, at);
                    }
                }
            }
            StepKind::Collective(this) => {
                self.inside(number, &this.send, facts, view, at);
                self.inside(number, &this.recv, facts, view, at);
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
                see(&this.from, view, false);
                if let Peer::Shift(hops) = &this.peer {
                    // What this rank receives is computed by the one that sends it.
                    let sender = facts.hop(view, &backwards(hops));
                    see(&this.to, &sender, true);
                    seen.last_mut().into_iter().for_each(|seen| seen.elsewhere = true);
                }
            }
            StepKind::Send(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.from, &facts, view, at);
                self.half(number, &this.from, &facts, view, at);
                see(&this.from, view, false);
            }
            StepKind::Receive(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.to, &facts, view, at);
                self.half(number, &this.to, &facts, view, at);
                see(&this.to, view, true);
            }
            StepKind::Put(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.from, &facts, view, at);
                self.inside(number, &this.to, &facts, view, at);
                self.alike(number, (&this.from, view), (&this.to, view), &facts, at);
                see(&this.from, view, false);
            }
            _ => {}
        }
    }
}

const LIST: &str = "declare the ranks and the parameters as lists or ranges: then each is checked";
const TRANSFER: &str =
    "declare the messages once for both ends, as transfers, or give all one length";
const PROMISE: &str = "say with `where` what the parameters promise";

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
