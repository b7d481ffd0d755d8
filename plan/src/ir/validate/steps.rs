//! Validates statements: their names, and where they are allowed.

use std::collections::HashSet;

use super::{Found, MOST_ASSIGNED};
use crate::ir::{
    Assign, Communication, Compute, ElementType, Equation, Location, Loop, Peer, Place, Reduction,
    Region, SignalId, Source, Step, StepKind,
};

/// The context of a statement.
#[derive(Clone, Copy, Default)]
struct Inside {
    group: bool,
    sequence: bool,
    /// A loop whose bounds depend on the rank.
    uneven: bool,
}

impl<'p> Found<'p> {
    pub(super) fn steps(&mut self) {
        let steps = &self.plan.steps;
        self.body(steps, Inside::default());
    }

    fn body(&mut self, steps: &[Step], inside: Inside) {
        for step in steps {
            self.stands(step, inside);
            self.step(step, inside);
        }
    }

    /// Checks that a statement is allowed in its context.
    fn stands(&mut self, step: &Step, inside: Inside) {
        let (at, what) = (step.at, describe(&step.kind));
        if inside.group
            && matches!(
                step.kind,
                StepKind::Compute(_)
                    | StepKind::Assign(_)
                    | StepKind::Here(_)
                    | StepKind::Group(_)
                    | StepKind::Sequence(_)
            )
        {
            let title = format!("{what} cannot be in a group");
            self.say(
                at,
                title,
                "groups hold communication alone: move it before or after the group",
            );
        }
        if inside.sequence {
            match &step.kind {
                StepKind::Compute(_) | StepKind::Assign(_) | StepKind::When(_) => {}
                StepKind::Transfer(this) => {
                    let open = match &this.peer {
                        Peer::Shift(hops) => hops.len() == 1 && !hops[0].wrap,
                        Peer::Rank(_) | Peer::Cases(_) => false,
                    };
                    if !open {
                        let title = "a transfer in a sequence does not go along one open axis";
                        let rank = match self.plan.axes.as_slice() {
                            [first, _, ..] => format!("rank.{}", first.name),
                            _ => "rank".to_owned(),
                        };
                        let help = format!(
                            "send to a rank further along one axis, as in `{rank} + 1`, without `%`"
                        );
                        self.say(at, title, &help);
                    }
                }
                _ => {
                    let title = format!("{what} cannot be in a sequence");
                    let help = "a sequence holds local work, transfers and guards around them";
                    self.say(at, title, help);
                }
            }
        }
        if inside.uneven && matches!(step.kind, StepKind::Transfer(_)) {
            let title = "a transfer cannot be in a loop whose bounds mention the rank";
            let help = "write its two halves, a send and a receive, or give the loop the same bounds on \
                        every rank and guard the transfer";
            self.say(at, title, help);
        }
    }

    fn step(&mut self, step: &Step, inside: Inside) {
        let at = step.at;
        match &step.kind {
            StepKind::Compute(this) => {
                self.name(&this.name, "compute step", at);
                this.arguments.iter().for_each(|one| self.number(one, "an argument", at));
                this.reads.iter().for_each(|one| self.region(one, "what is read", true, at));
                this.writes.iter().for_each(|one| self.region(one, "what is written", true, at));
                self.equations(this, at);
                self.place(&this.place, at);
            }
            StepKind::Assign(this) => {
                self.region(&this.to, "what is assigned to", false, at);
                this.of.iter().for_each(|one| self.assigned(one, at));
                self.assign(this, at);
                self.place(&this.place, at);
            }
            StepKind::Here(claim) => self.claim(claim, true),
            StepKind::Group(body) => self.body(body, Inside { group: true, ..inside }),
            StepKind::Sequence(body) => self.body(body, Inside { sequence: true, ..inside }),
            StepKind::Loop(this) => self.repeated(this, inside, at),
            StepKind::When(this) => {
                self.condition(&this.condition, "a condition", true, at);
                self.body(&this.body, inside);
            }
            kind => kind.communication().iter().for_each(|this| self.communicates(kind, this, at)),
        }
    }

    fn communicates(&mut self, kind: &StepKind, this: &Communication<'_>, at: Location) {
        let among = this.among.index();
        self.in_range(among, self.plan.communicators.len(), "this step", "communicator", at);
        if let StepKind::Collective(this) = kind {
            self.root(&this.kind, at);
        }
        let (from, to) = match kind {
            StepKind::Put(_) => ("what is put", "where it is put"),
            _ => ("what is sent", "where it is received"),
        };
        this.from.into_iter().for_each(|region| self.region(region, from, false, at));
        this.peer.into_iter().for_each(|peer| self.peer(peer, among, at));
        this.to.into_iter().for_each(|region| self.region(region, to, false, at));
        this.signal.into_iter().for_each(|signal| self.signal(signal, at));
        if let StepKind::Wait(wait) = kind {
            for one in &wait.signals {
                self.signal(one.signal, at);
                self.peer(&one.peer, among, at);
                self.number(&one.times, "how often a signal is awaited", at);
            }
        }
        self.place(this.place, at);
    }

    fn element(&self, region: &Region) -> Option<&'p ElementType> {
        Some(&self.plan.buffers.get(region.buffer.index())?.element)
    }

    /// Declared results refer to regions that the step reads and writes, each region once, all of
    /// one type.
    fn equations(&mut self, step: &Compute, at: Location) {
        let mut known = HashSet::new();
        for Equation { to, of, .. } in &step.computes {
            let written = step.writes.get(*to as usize);
            let read: Option<Vec<_>> = of.iter().map(|one| step.reads.get(*one as usize)).collect();
            let (Some(written), Some(read)) = (written, read.filter(|read| !read.is_empty()))
            else {
                let title = "what a step computes is not of what it reads and writes";
                return self.say(at, title, "name regions that the step reads and writes");
            };
            let name = self.plan.show(written);
            if !known.insert(to) {
                let title = format!("a step says twice what it leaves in `{name}`");
                return self.say(at, title, "say it once");
            }
            let other = read.into_iter().find(|one| self.element(one) != self.element(written));
            if let (Some(other), Some(to)) = (other, self.element(written))
                && let Some(of) = self.element(other)
            {
                let other = self.plan.show(other);
                let title =
                    format!("`{name}` holds {to}, and `{other}`, of which it is computed, {of}");
                let help = "what a step computes is of one type: leave this out of `computes`";
                return self.say(at, title, help);
            }
        }
    }

    /// An assignment reads at least one region, all of one type, for which its reduction is
    /// defined.
    fn assign(&mut self, assign: &Assign, at: Location) {
        let Some(to) = self.element(&assign.to) else { return };
        let name = self.plan.show(&assign.to);
        if assign.of.is_empty() || assign.of.len() > MOST_ASSIGNED {
            let (len, most) = (assign.of.len(), MOST_ASSIGNED);
            let title =
                format!("`{name}` is computed of {len} regions, and must be of 1 to {most}");
            return self.say(at, title, "reduce them in several statements");
        }
        for Source { region: one, .. } in &assign.of {
            if let Some(of) = self.element(one).filter(|of| *of != to) {
                let other = self.plan.show(one);
                let title = format!("`{name}` holds {to}, and `{other}` holds {of}");
                return self.say(at, title, "an assignment converts nothing: give both one type");
            }
        }
        let reduces = assign.of.len() > 1 || assign.of.iter().any(|one| !one.around.is_empty());
        let averages = assign.by == Reduction::Avg && reduces;
        if reduces && !to.reduces() {
            let title = format!("`{name}` holds {to}, which no plan reduces");
            self.say(at, title, "compute it in a step");
        } else if averages && !to.averages() {
            let title = format!("`{name}` holds {to}, which has no average: it would be truncated");
            self.say(at, title, "use a sum, and divide where the result is read");
        }
    }

    fn repeated(&mut self, this: &Loop, inside: Inside, at: Location) {
        self.number(&this.from, "the first value of a loop", at);
        self.number(&this.to, "the end of a loop", at);
        this.powers.iter().for_each(|base| self.even(base, "the base of a loop's powers", at));
        let counters = &self.plan.counters;
        let index = this.counter.index();
        if self.in_range(index, counters.len(), "a loop", "counter", at) {
            let name = &counters[index].name;
            let mut around = self.scope.iter().filter_map(|id| counters.get(id.index()));
            if around.any(|counter| counter.name == *name) {
                let title = format!("a loop counts with `{name}` inside a loop that does");
                self.say(at, title, "give the inner loop another counter");
            }
        }
        let uneven = this.from.mentions_rank() || this.to.mentions_rank();
        self.scope.push(this.counter);
        self.body(&this.body, Inside { uneven: inside.uneven || uneven, ..inside });
        self.scope.pop();
    }

    fn signal(&mut self, signal: SignalId, at: Location) {
        self.in_range(signal.index(), self.plan.signals.len(), "this step", "signal", at);
    }

    fn place(&mut self, place: &Place, at: Location) {
        let streams = self.plan.streams.len();
        self.in_range(place.on.index(), streams, "this step", "stream", at);
        for after in &place.after {
            self.in_range(after.index(), streams, "`after`", "stream", at);
        }
    }
}

fn describe(kind: &StepKind) -> &'static str {
    match kind {
        StepKind::Compute(_) => "a compute step",
        StepKind::Assign(_) => "an assignment",
        StepKind::Collective(_) => "a collective",
        StepKind::Transfer(_) => "a transfer",
        StepKind::Send(_) => "a send",
        StepKind::Receive(_) => "a receive",
        StepKind::Put(_) => "a put",
        StepKind::Signal(_) => "a signal",
        StepKind::Wait(_) => "a wait",
        StepKind::Group(_) => "a group",
        StepKind::Loop(_) => "a loop",
        StepKind::When(_) => "a guard",
        StepKind::Sequence(_) => "a sequence",
        StepKind::Here(_) => "a claim",
    }
}
