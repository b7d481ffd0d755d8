//! Validates declarations: axes, parameters, communicators, memory.

use std::collections::HashSet;

use super::numbers::Use;
use super::{Found, MOST_CHECKED, MOST_NAME, MOST_VALUES};
use crate::ir::{Buffer, CollectiveKind, Communicator, ElementType, Location, Promise, Values};

impl Found<'_> {
    pub(super) fn declarations(&mut self) {
        let plan = self.plan;
        self.name(&plan.name, "plan", Location::default());
        self.names("axes", "axis", plan.axes.iter().map(|one| (&*one.name, one.at)));
        self.names("parameters", "parameter", plan.params.iter().map(|one| (&*one.name, one.at)));
        let communicators = plan.communicators.iter().map(|one| (&*one.name, one.at));
        self.names("communicators", "communicator", communicators);
        self.names("buffers", "buffer", plan.buffers.iter().map(|one| (&*one.name, one.at)));
        self.names("signals", "signal", plan.signals.iter().map(|one| (&*one.name, one.at)));
        self.names("streams", "stream", plan.streams.iter().map(|one| (&*one.name, one.at)));
        self.names("counters", "counter", plan.counters.iter().map(|one| (&*one.name, one.at)));
        self.axes();
        self.params();
        for promise in &plan.promises {
            self.promise(promise);
        }
        plan.communicators.iter().for_each(|one| self.communicator(one));
        plan.buffers.iter().for_each(|one| self.buffer(one));
        for cover in &plan.covers {
            self.region(&cover.region, "what is covered", false, cover.at);
        }
        for computed in &plan.computes {
            self.root(&computed.kind, computed.at);
            self.region(&computed.send, "what would be sent", false, computed.at);
            self.region(&computed.recv, "what is computed", false, computed.at);
        }
        plan.claims.iter().for_each(|claim| self.claim(claim, false));
        self.checks();
    }

    /// A promise is the same on every rank.
    fn promise(&mut self, promise: &Promise) {
        for each in &promise.around {
            for number in each.numbers() {
                self.even(number, "the loop around a promise", promise.at);
            }
            let counters = self.plan.counters.len();
            if self.in_range(each.counter.index(), counters, "a promise", "counter", promise.at) {
                self.scope.push(each.counter);
            }
        }
        self.condition(&promise.condition, "a promise", false, promise.at);
        self.scope.clear();
    }

    /// Sizes to check must refer to declared names and be few enough.
    fn checks(&mut self) {
        let plan = self.plan;
        for asked in &plan.checks {
            let unknown = asked.extents.iter().any(|(axis, _)| axis.index() >= plan.axes.len())
                || asked.params.iter().any(|(param, _)| param.index() >= plan.params.len());
            if unknown {
                let title = "sizes to check name an axis or a parameter that is not there";
                self.say(asked.at, title, "name those that the plan has");
            }
            let extents = asked.extents.iter().map(|(_, values)| values.len());
            let params = asked.params.iter().map(|(_, values)| values.len());
            let combinations = extents.chain(params).fold(1, usize::saturating_mul);
            if !(1..=MOST_CHECKED).contains(&combinations) {
                let title = format!("these are {combinations} sizes to check");
                let help = format!("ask for 1 to {MOST_CHECKED}: each value with each other one");
                self.say(asked.at, title, help);
            }
        }
    }

    fn axes(&mut self) {
        let axes = &self.plan.axes;
        if !(1..=4).contains(&axes.len()) {
            let at =
                axes.get(4).or_else(|| axes.first()).map_or_else(Location::default, |axis| axis.at);
            let title = format!("the plan has {} axes", axes.len());
            self.say(
                at,
                title,
                "declare 1 to 4: a plan without a mesh has one, the number of ranks",
            );
        }
        for axis in axes {
            let what = format!("axis `{}`", axis.name);
            if self.values(&axis.extent, &what, axis.at)
                && let Some(first) = axis.extent.first()
                && first < 1
            {
                let title = format!("{what} may have {first} ranks");
                self.say(axis.at, title, "let its extent begin at 1");
            }
        }
    }

    fn params(&mut self) {
        for (index, param) in self.plan.params.iter().enumerate() {
            let what = format!("parameter `{}`", param.name);
            self.values(&param.values, &what, param.at);
            if let Some(count) = &param.count {
                let what = format!("the count of parameter `{}`", param.name);
                let used = Use { what: &what, rank: false, params: index };
                self.number_as(count, used, param.at);
            }
        }
    }

    /// Whether there are any; reported if not.
    fn values(&mut self, values: &Values, what: &str, at: Location) -> bool {
        match values {
            Values::OneOf(list) if list.is_empty() => {
                self.say(at, format!("{what} is one of no numbers"), "list one at least");
                false
            }
            Values::OneOf(list) if list.len() > MOST_VALUES => {
                let title =
                    format!("{what} is one of {} numbers, more than {MOST_VALUES}", list.len());
                self.say(at, title, "declare a range");
                true
            }
            Values::Range(first, last) if first > last => {
                let title = format!("{what} is from {first} to {last}, which is empty");
                self.say(at, title, "write the smaller number first");
                false
            }
            Values::Powers(of) if *of < 2 => {
                let title = format!("{what} is a power of {of}");
                self.say(at, title, "name a number of 2 or more, as in `powers of 2`");
                false
            }
            _ => true,
        }
    }

    fn communicator(&mut self, communicator: &Communicator) {
        let Communicator { name, axes, at } = communicator;
        let what = format!("communicator `{name}`");
        if axes.is_empty() {
            let title = format!("{what} has no axes");
            self.say(*at, title, "name the axes along which its ranks differ");
        }
        for axis in axes {
            if !self.in_range(axis.index(), self.plan.axes.len(), &what, "axis", *at) {
                return;
            }
        }
        if !axes.is_sorted_by(|a, b| a < b) {
            let title =
                format!("{what} does not have its axes in the order of the plan's, each once");
            self.say(*at, title, "name each axis once, in the order in which they are declared");
        }
    }

    fn buffer(&mut self, buffer: &Buffer) {
        let kind = if buffer.window { "window" } else { "buffer" };
        let what = format!("the length of {kind} `{}`", buffer.name);
        if let Some(array) = &buffer.array {
            let count = format!("the count of array `{}`", buffer.name);
            self.even(&array.count, &count, buffer.at);
            let counters = self.plan.counters.len();
            self.in_range(array.index.index(), counters, &count, "counter", buffer.at);
            self.scope.push(array.index);
        }
        match buffer.window {
            true => self.even(&buffer.len, &what, buffer.at),
            false => self.number(&buffer.len, &what, buffer.at),
        }
        self.scope.clear();
        if !matches!(buffer.copies, 1 | 2) {
            let title = format!("buffer `{}` has {} copies", buffer.name, buffer.copies);
            self.say(buffer.at, title, "declare 1, or 2 that swap with every run");
        }
        if let ElementType::Generic(name) = &buffer.element {
            self.name(name, "type parameter", buffer.at);
        }
    }

    /// The root of a collective, if it has one.
    pub(super) fn root(&mut self, kind: &CollectiveKind, at: Location) {
        if let Some(root) = kind.root() {
            self.number(root, "the root", at);
        }
    }

    fn names<'n>(
        &mut self,
        many: &str,
        one: &str,
        names: impl Iterator<Item = (&'n str, Location)>,
    ) {
        let mut seen = HashSet::new();
        for (name, at) in names {
            self.name(name, one, at);
            // Consecutive loops may share a counter's name.
            if many != "counters" && !name.is_empty() && !seen.insert(name) {
                let title = format!("two {many} are called `{}`", short(name));
                self.say(at, title, "give each a name of its own");
            }
        }
    }

    pub(super) fn name(&mut self, name: &str, what: &str, at: Location) {
        if name.is_empty() {
            self.say(at, format!("the name of a {what} is empty"), "give it a name");
        } else if name.len() > MOST_NAME {
            let title = format!(
                "the name of a {what} has {} bytes, more than {MOST_NAME}: `{}`..",
                name.len(),
                short(name)
            );
            self.say(at, title, "give it a shorter one");
        }
    }
}

/// The beginning of a name that may be long.
fn short(name: &str) -> &str {
    name.char_indices().nth(MOST_NAME / 4).map_or(name, |(end, _)| &name[..end])
}
