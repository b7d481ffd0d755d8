//! From a plan to a file's values.

use std::cell::RefCell;

use super::layout::Out;
use super::names::Counters;
use crate::ir::names::Names;
use crate::ir::show::{Shown, show};
use crate::ir::{
    Buffer, CollectiveKind, ElementType, Expr, Launch, Location, Loop, LoopId, MOST_NESTING, Named,
    Order, Peer, Place, Plan, Region, Role, Step, StepKind, Values, Version,
};

type Fields = Vec<(&'static str, Out)>;

/// The text of a plan.
pub(super) fn plan(plan: &Plan) -> String {
    let counters = RefCell::new(Counters::new(plan));
    Writer { plan, names: Names::new(plan), counters }.plan().render()
}

struct Writer<'a> {
    plan: &'a Plan,
    names: Names<'a>,
    counters: RefCell<Counters<'a>>,
}

impl Writer<'_> {
    fn plan(&self) -> Out {
        let plan = self.plan;
        let axes = plan.axes.iter().map(|axis| {
            let fields = vec![("name", (&*axis.name).into()), ("extent", values(&axis.extent))];
            placed(fields, axis.at)
        });
        let params = plan.params.iter().map(|param| {
            let mut fields =
                vec![("name", (&*param.name).into()), ("values", values(&param.values))];
            fields.extend(param.count.as_ref().map(|count| ("count", self.number(count))));
            placed(fields, param.at)
        });
        let promises = plan.promises.iter().map(|promise| {
            let condition = Out::Text(show(&self.names, (&promise.condition).into()));
            brief("holds", condition, promise.at)
        });
        let communicators = plan.communicators.iter().map(|one| {
            let axes = one
                .axes
                .iter()
                .map(|id| name(plan.axes.get(id.index()).map(|axis| &axis.name), "axis", id.0));
            let axes = Out::List(axes.collect());
            placed(vec![("name", (&*one.name).into()), ("axes", axes)], one.at)
        });
        let covers =
            plan.covers.iter().map(|one| brief("region", self.region(&one.region), one.at));
        let computes = plan.computes.iter().map(|one| {
            let mut fields = self.collective(&one.kind);
            fields.push(("from", self.region(&one.send)));
            fields.push(("into", self.region(&one.recv)));
            placed(fields, one.at)
        });
        let mut fields: Fields = vec![
            (super::VERSION_KEY, Out::Number(1)),
            ("name", (&*plan.name).into()),
            // Even if there are none: a file without this list has its places in its own text.
            ("files", Out::List(plan.files.iter().map(|file| (&**file).into()).collect())),
            ("axes", Out::List(axes.collect())),
        ];
        list(&mut fields, "params", params);
        list(&mut fields, "promises", promises);
        fields.push(("communicators", Out::List(communicators.collect())));
        list(&mut fields, "buffers", plan.buffers.iter().map(|one| self.buffer(one)));
        list(&mut fields, "signals", plan.signals.iter().map(named));
        list(&mut fields, "streams", plan.streams.iter().map(named));
        list(&mut fields, "counters", plan.counters.iter().map(named));
        if plan.launch == Launch::Captured {
            fields.push(("launch", "captured".into()));
        }
        if !plan.replayed {
            fields.push(("replayed", Out::Bool(false)));
        }
        if plan.target != Version::default() {
            fields.push(("target", Out::Text(plan.target.to_string())));
        }
        if plan.order == Order::Implicit {
            fields.push(("order", "implicit".into()));
        }
        fields.push(("steps", self.steps(&plan.steps, 1)));
        list(&mut fields, "covers", covers);
        list(&mut fields, "computes", computes);
        Out::Object(fields)
    }

    fn buffer(&self, buffer: &Buffer) -> Out {
        let element = match &buffer.element {
            ElementType::Generic(name) => Out::Object(vec![("generic", (&**name).into())]),
            named => Out::Text(named.to_string()),
        };
        let role = match buffer.role {
            Role::In => "in",
            Role::Out => "out",
            Role::InOut => "in_out",
            Role::Local => "local",
        };
        let mut fields = vec![("name", (&*buffer.name).into()), ("element", element)];
        if let Some(array) = &buffer.array {
            let mut array_fields = vec![("count", self.number(&array.count))];
            self.counter(&mut array_fields, "index", array.index);
            fields.push(("array", Out::Object(array_fields)));
        }
        fields.push(("len", self.number(&buffer.len)));
        fields.push(("role", role.into()));
        if buffer.window {
            fields.push(("window", Out::Bool(true)));
        }
        if buffer.copies != 1 {
            fields.push(("copies", Out::Number(buffer.copies.into())));
        }
        placed(fields, buffer.at)
    }

    /// Statements at this depth; those that stand deeper than in any well-formed plan are left out.
    fn steps(&self, steps: &[Step], depth: usize) -> Out {
        let steps = if depth > MOST_NESTING { &[] } else { steps };
        let mut list = Vec::with_capacity(steps.len());
        for step in steps {
            list.push(self.step(step, depth));
        }
        Out::List(list)
    }

    fn step(&self, step: &Step, depth: usize) -> Out {
        let (mut fields, key, body): (Fields, _, &[Step]) = match &step.kind {
            StepKind::Group(body) => (Vec::new(), "group", body),
            StepKind::Sequence(body) => (Vec::new(), "sequence", body),
            StepKind::Loop(this) => (self.head(this), "do", &this.body),
            StepKind::When(this) => {
                let condition = Out::Text(show(&self.names, (&this.condition).into()));
                (vec![("when", condition)], "do", &this.body)
            }
            kind => return placed(self.leaf(kind), step.at),
        };
        // Last, so that it can hang below.
        fields.extend(place_of(step.at));
        fields.push((key, self.steps(body, depth + 1)));
        Out::Object(fields)
    }

    fn head(&self, this: &Loop) -> Fields {
        let mut fields = Vec::new();
        self.counter(&mut fields, "for", this.counter);
        fields.push(("from", self.number(&this.from)));
        fields.push(("to", self.number(&this.to)));
        if this.reverse {
            fields.push(("reverse", Out::Bool(true)));
        }
        fields
    }

    /// The counter of a loop or an array.
    fn counter(&self, fields: &mut Fields, key: &'static str, id: LoopId) {
        let counter = self.plan.counters.get(id.index()).map(|one| &one.name);
        fields.push((key, name(counter, "counter", id.0)));
        let nth = counter.and_then(|name| self.counters.borrow_mut().nth(name, id.0));
        fields.extend(nth.map(|nth| ("nth", Out::Number(nth as i64))));
    }

    /// A statement without others inside.
    fn leaf(&self, kind: &StepKind) -> Fields {
        let plan = self.plan;
        let signal = |id: crate::ir::SignalId| {
            name(plan.signals.get(id.index()).map(|one| &one.name), "signal", id.0)
        };
        let communicator = |id: crate::ir::CommunicatorId| {
            let one = plan.communicators.get(id.index());
            ("among", name(one.map(|one| &one.name), "communicator", id.0))
        };
        match kind {
            StepKind::Compute(this) => {
                let mut fields = vec![("compute", (&*this.name).into())];
                list(&mut fields, "arguments", this.arguments.iter().map(|one| self.number(one)));
                list(&mut fields, "reads", this.reads.iter().map(|one| self.region(one)));
                list(&mut fields, "writes", this.writes.iter().map(|one| self.region(one)));
                self.place(&mut fields, &this.place);
                fields
            }
            StepKind::Collective(this) => {
                let mut fields = self.collective(&this.kind);
                fields.push(("from", self.region(&this.send)));
                fields.push(("into", self.region(&this.recv)));
                fields.push(communicator(this.among));
                self.place(&mut fields, &this.place);
                fields
            }
            StepKind::Transfer(this) => {
                let mut fields = vec![
                    ("transfer", self.region(&this.from)),
                    ("peer", self.peer(&this.peer)),
                    ("into", self.region(&this.to)),
                    communicator(this.among),
                ];
                self.place(&mut fields, &this.place);
                fields
            }
            StepKind::Send(this) => {
                let mut fields = vec![
                    ("send", self.region(&this.from)),
                    ("peer", self.peer(&this.peer)),
                    communicator(this.among),
                ];
                self.place(&mut fields, &this.place);
                fields
            }
            StepKind::Receive(this) => {
                let mut fields = vec![
                    ("receive", self.region(&this.to)),
                    ("peer", self.peer(&this.peer)),
                    communicator(this.among),
                ];
                self.place(&mut fields, &this.place);
                fields
            }
            StepKind::Put(this) => {
                let mut fields = vec![
                    ("put", self.region(&this.from)),
                    ("peer", self.peer(&this.peer)),
                    ("into", self.region(&this.to)),
                ];
                fields.extend(this.signal.map(|id| ("raises", signal(id))));
                fields.push(communicator(this.among));
                self.place(&mut fields, &this.place);
                fields
            }
            StepKind::Signal(this) => {
                let mut fields = vec![
                    ("signal", signal(this.signal)),
                    ("peer", self.peer(&this.peer)),
                    communicator(this.among),
                ];
                self.place(&mut fields, &this.place);
                fields
            }
            StepKind::Wait(this) => {
                let signals = this.signals.iter().map(|one| {
                    let mut fields =
                        vec![("signal", signal(one.signal)), ("peer", self.peer(&one.peer))];
                    if one.times != Expr::Int(1) {
                        fields.push(("times", self.number(&one.times)));
                    }
                    Out::Object(fields)
                });
                let mut fields =
                    vec![("wait", Out::List(signals.collect())), communicator(this.among)];
                self.place(&mut fields, &this.place);
                fields
            }
            StepKind::Group(_) | StepKind::Sequence(_) | StepKind::Loop(_) | StepKind::When(_) => {
                Vec::new()
            }
        }
    }

    fn place(&self, fields: &mut Fields, place: &Place) {
        let stream = |id: &crate::ir::StreamId| {
            name(self.plan.streams.get(id.index()).map(|one| &one.name), "stream", id.0)
        };
        fields.push(("on", stream(&place.on)));
        list(fields, "after", place.after.iter().map(stream));
    }

    fn collective(&self, kind: &CollectiveKind) -> Fields {
        let mut fields: Fields = vec![("collective", kind.name().into())];
        fields.extend(kind.reduction().map(|by| ("reduction", Out::Text(by.to_string()))));
        fields.extend(kind.root().map(|root| ("root", self.number(root))));
        fields
    }

    fn number(&self, expr: &Expr) -> Out {
        match expr {
            Expr::Int(value) => Out::Number(*value),
            expr => Out::Text(show(&self.names, Shown::Number(expr))),
        }
    }

    fn region(&self, region: &Region) -> Out {
        Out::Text(show(&self.names, Shown::Region(region)))
    }

    fn peer(&self, peer: &Peer) -> Out {
        match peer {
            Peer::Rank(expr) => Out::Object(vec![("rank", self.number(expr))]),
            Peer::Shift(hops) if hops.is_empty() => Out::List(Vec::new()),
            peer => Out::Text(show(&self.names, Shown::Peer(peer))),
        }
    }
}

fn values(values: &Values) -> Out {
    match values {
        Values::Exactly(only) => Out::Number(*only),
        Values::OneOf(list) => Out::List(list.iter().map(|one| Out::Number(*one)).collect()),
        Values::Range(first, last) => Out::Text(format!("{first} ..= {last}")),
        Values::AtLeast(first) => Out::Text(format!(">= {first}")),
    }
}

fn named(named: &Named) -> Out {
    brief("name", (&*named.name).into(), named.at)
}

/// The value alone where nothing is known of its place.
fn brief(key: &'static str, value: Out, at: Location) -> Out {
    if at == Location::default() { value } else { placed(vec![(key, value)], at) }
}

fn placed(mut fields: Fields, at: Location) -> Out {
    fields.extend(place_of(at));
    Out::Object(fields)
}

/// `at`, unless it is not known.
fn place_of(at: Location) -> Option<(&'static str, Out)> {
    if at == Location::default() {
        return None;
    }
    let mut numbers = vec![Out::Number(at.line.into()), Out::Number(at.column.into())];
    if at.file != 0 {
        numbers.push(Out::Number(at.file.into()));
    }
    Some(("at", Out::List(numbers)))
}

/// A field with a list, unless that is empty.
fn list(fields: &mut Fields, key: &'static str, list: impl Iterator<Item = Out>) {
    let list: Vec<_> = list.collect();
    if !list.is_empty() {
        fields.push((key, Out::List(list)));
    }
}

fn name(name: Option<&String>, kind: &str, id: u32) -> Out {
    Out::Text(name.cloned().unwrap_or_else(|| format!("{kind}#{id}")))
}
