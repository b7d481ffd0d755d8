//! What a file does: its statements.

use super::super::JsonError;
use super::super::node::{Fields, Node};
use super::super::tree::Kind;
use super::Reader;
use super::declarations::one_of;
use crate::ir::{
    Awaited, Collective, CollectiveKind, CommunicatorId, Compute, Loop, MOST_NESTING, Place,
    Postcondition, Put, Receive, Reduction, Region, Send, Signal, SignalId, Step, StepKind,
    StreamId, Transfer, Wait, When,
};

/// The key that says what a statement does, and the others that go with it.
const KEYS: [(&str, &[&str]); 12] = [
    ("compute", &["compute", "arguments", "reads", "writes", "on", "after", "at"]),
    (
        "collective",
        &["collective", "reduction", "root", "from", "into", "among", "on", "after", "at"],
    ),
    ("transfer", &["transfer", "peer", "into", "among", "on", "after", "at"]),
    ("send", &["send", "peer", "among", "on", "after", "at"]),
    ("receive", &["receive", "peer", "among", "on", "after", "at"]),
    ("put", &["put", "peer", "into", "raises", "among", "on", "after", "at"]),
    ("signal", &["signal", "peer", "among", "on", "after", "at"]),
    ("wait", &["wait", "among", "on", "after", "at"]),
    ("group", &["group", "at"]),
    ("for", &["for", "nth", "from", "to", "reverse", "do", "at"]),
    ("when", &["when", "do", "at"]),
    ("sequence", &["sequence", "at"]),
];

impl Reader<'_> {
    /// Statements that stand at this depth, from 1.
    pub(super) fn steps(&mut self, node: &Node<'_>, depth: usize) -> Result<Vec<Step>, JsonError> {
        if depth > MOST_NESTING && matches!(node.kind(), Kind::List(list) if !list.is_empty()) {
            let found = "more";
            return Err(
                node.shape(format!("steps inside at most {} others", MOST_NESTING - 1), found)
            );
        }
        // This function and those that it calls on the way down have small frames.
        let mut steps = Vec::new();
        for step in node.list("steps")? {
            steps.push(self.step(&step, depth)?);
        }
        Ok(steps)
    }

    fn step(&mut self, node: &Node<'_>, depth: usize) -> Result<Step, JsonError> {
        let (verb, fields) = verb(node)?;
        let main = fields.need(verb)?;
        let kind = match verb {
            "group" => StepKind::Group(self.steps(&main, depth + 1)?),
            "sequence" => StepKind::Sequence(self.steps(&main, depth + 1)?),
            "for" | "when" => {
                let mut kind = self.head(verb, &main, &fields)?;
                let outside = self.scope.len();
                if let StepKind::Loop(this) = &kind {
                    self.scope.push(this.counter);
                }
                let inside = self.steps(&fields.need("do")?, depth + 1)?;
                self.scope.truncate(outside);
                match &mut kind {
                    StepKind::Loop(Loop { body, .. }) | StepKind::When(When { body, .. }) => {
                        *body = inside
                    }
                    _ => {}
                }
                kind
            }
            _ => self.leaf(verb, &main, &fields)?,
        };
        Ok(Step { kind, at: fields.at()? })
    }

    /// A loop or a guard, before its body is read.
    fn head(
        &mut self,
        verb: &str,
        main: &Node<'_>,
        fields: &Fields<'_>,
    ) -> Result<StepKind, JsonError> {
        let body = Vec::new();
        if verb == "when" {
            return Ok(StepKind::When(When { condition: self.condition(main)?, body }));
        }
        Ok(StepKind::Loop(Loop {
            counter: self.counter(main, fields)?,
            from: self.number(&fields.need("from")?)?,
            to: self.number(&fields.need("to")?)?,
            reverse: fields.flag("reverse")?,
            body,
        }))
    }

    /// A statement without others inside.
    fn leaf(
        &mut self,
        verb: &str,
        main: &Node<'_>,
        fields: &Fields<'_>,
    ) -> Result<StepKind, JsonError> {
        if verb == "compute" {
            return Ok(StepKind::Compute(self.compute(main, fields)?));
        }
        let (among, place) = (self.among(fields)?, self.place(fields)?);
        Ok(match verb {
            "collective" => StepKind::Collective(Collective {
                kind: self.collective_kind(main, fields)?,
                send: self.region(&fields.need("from")?)?,
                recv: self.region(&fields.need("into")?)?,
                among,
                place,
            }),
            "transfer" => StepKind::Transfer(Transfer {
                from: self.region(main)?,
                peer: self.peer(&fields.need("peer")?)?,
                to: self.region(&fields.need("into")?)?,
                among,
                place,
            }),
            "send" => StepKind::Send(Send {
                from: self.region(main)?,
                peer: self.peer(&fields.need("peer")?)?,
                among,
                place,
            }),
            "receive" => StepKind::Receive(Receive {
                to: self.region(main)?,
                peer: self.peer(&fields.need("peer")?)?,
                among,
                place,
            }),
            "put" => StepKind::Put(Put {
                from: self.region(main)?,
                peer: self.peer(&fields.need("peer")?)?,
                to: self.region(&fields.need("into")?)?,
                signal: fields.maybe("raises").map(|signal| self.signal(&signal)).transpose()?,
                among,
                place,
            }),
            "signal" => StepKind::Signal(Signal {
                signal: self.signal(main)?,
                peer: self.peer(&fields.need("peer")?)?,
                among,
                place,
            }),
            _ => {
                let signals = main.list("signals")?.map(|one| self.awaited(&one));
                let signals = signals.collect::<Result<_, _>>()?;
                StepKind::Wait(Wait { signals, among, place })
            }
        })
    }

    fn compute(&mut self, name: &Node<'_>, fields: &Fields<'_>) -> Result<Compute, JsonError> {
        let arguments = match fields.maybe("arguments") {
            None => Vec::new(),
            Some(list) => {
                let list = list.list("numbers")?.map(|one| self.number(&one));
                list.collect::<Result<_, _>>()?
            }
        };
        Ok(Compute {
            name: name.text("the name of a compute step")?.to_owned(),
            arguments,
            reads: self.regions(fields, "reads")?,
            writes: self.regions(fields, "writes")?,
            place: self.place(fields)?,
        })
    }

    fn regions(&mut self, fields: &Fields<'_>, key: &str) -> Result<Vec<Region>, JsonError> {
        match fields.maybe(key) {
            None => Ok(Vec::new()),
            Some(list) => list.list("regions")?.map(|one| self.region(&one)).collect(),
        }
    }

    fn awaited(&mut self, node: &Node<'_>) -> Result<Awaited, JsonError> {
        let fields = node.object("an awaited signal", &["signal", "peer", "times"])?;
        Ok(Awaited {
            signal: self.signal(&fields.need("signal")?)?,
            peer: self.peer(&fields.need("peer")?)?,
            times: fields
                .maybe("times")
                .map_or_else(|| Ok(1.into()), |times| self.number(&times))?,
        })
    }

    fn signal(&self, node: &Node<'_>) -> Result<SignalId, JsonError> {
        Ok(SignalId(self.id(node, &self.declared.signals)?))
    }

    fn among(&self, fields: &Fields<'_>) -> Result<CommunicatorId, JsonError> {
        Ok(CommunicatorId(self.id(&fields.need("among")?, &self.declared.communicators)?))
    }

    fn place(&self, fields: &Fields<'_>) -> Result<Place, JsonError> {
        let stream = |node: &Node<'_>| Ok(StreamId(self.id(node, &self.declared.streams)?));
        let after = match fields.maybe("after") {
            None => Vec::new(),
            Some(list) => {
                list.list("streams")?.map(|one| stream(&one)).collect::<Result<_, JsonError>>()?
            }
        };
        Ok(Place { on: stream(&fields.need("on")?)?, after })
    }

    pub(super) fn postcondition(&mut self, node: &Node<'_>) -> Result<Postcondition, JsonError> {
        let keys = ["collective", "reduction", "root", "from", "into", "at"];
        let fields = node.object("what is computed", &keys)?;
        Ok(Postcondition {
            kind: self.collective_kind(&fields.need("collective")?, &fields)?,
            send: self.region(&fields.need("from")?)?,
            recv: self.region(&fields.need("into")?)?,
            at: fields.at()?,
        })
    }

    fn collective_kind(
        &mut self,
        name: &Node<'_>,
        fields: &Fields<'_>,
    ) -> Result<CollectiveKind, JsonError> {
        #[derive(Clone)]
        enum Of {
            Reduction(fn(Reduction) -> CollectiveKind),
            Root(fn(crate::ir::Expr) -> CollectiveKind),
            Both,
            Neither(CollectiveKind),
        }
        let kinds = [
            ("all_reduce", Of::Reduction(CollectiveKind::AllReduce)),
            ("broadcast", Of::Root(CollectiveKind::Broadcast)),
            ("reduce", Of::Both),
            ("all_gather", Of::Neither(CollectiveKind::AllGather)),
            ("reduce_scatter", Of::Reduction(CollectiveKind::ReduceScatter)),
            ("all_to_all", Of::Neither(CollectiveKind::AllToAll)),
            ("gather", Of::Root(CollectiveKind::Gather)),
            ("scatter", Of::Root(CollectiveKind::Scatter)),
        ];
        let of = one_of(name, &kinds)?;
        let spare = match of {
            Of::Reduction(_) => fields.maybe("root").map(|node| (node, "root")),
            Of::Root(_) => fields.maybe("reduction").map(|node| (node, "reduction")),
            Of::Both => None,
            Of::Neither(_) => {
                let root = fields.maybe("root").map(|node| (node, "root"));
                root.or_else(|| fields.maybe("reduction").map(|node| (node, "reduction")))
            }
        };
        if let Some((spare, key)) = spare {
            return Err(
                spare.shape(format!("a collective without a {key}"), format!("the key {key:?}"))
            );
        }
        Ok(match of {
            Of::Neither(kind) => kind,
            Of::Reduction(make) => make(reduction(&fields.need("reduction")?)?),
            Of::Root(make) => make(self.number(&fields.need("root")?)?),
            Of::Both => {
                let by = reduction(&fields.need("reduction")?)?;
                CollectiveKind::Reduce(by, self.number(&fields.need("root")?)?)
            }
        })
    }
}

/// What a statement does, and its fields.
fn verb<'a>(node: &'a Node<'a>) -> Result<(&'static str, Fields<'a>), JsonError> {
    let Kind::Object(entries) = node.kind() else { return Err(node.expected("a step")) };
    let known = |key: &str| KEYS.iter().find(|(verb, _)| *verb == key);
    let Some((verb, keys)) = entries.iter().find_map(|(key, _)| known(key)) else {
        let verbs: Vec<_> = KEYS.iter().map(|(verb, _)| *verb).collect();
        let expected = format!("a step with one of the keys {}", verbs.join(", "));
        return Err(node.shape(expected, "none of them"));
    };
    Ok((verb, node.object(&format!("a step of the kind {verb:?}"), keys)?))
}

fn reduction(node: &Node<'_>) -> Result<Reduction, JsonError> {
    use Reduction::*;
    let all = [("sum", Sum), ("prod", Prod), ("min", Min), ("max", Max), ("avg", Avg)];
    one_of(node, &all)
}
