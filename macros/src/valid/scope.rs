//! Scopes and the meaning of names.

use std::collections::HashMap;

use proc_macro2::{Ident, Span};
use typed_nccl_plan::ir::{
    self, AxisId, BufferId, CommunicatorId, LoopId, ParamId, SignalId, StreamId,
};

use super::listed::Rows;
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::text;
use crate::fault::Fault;
use crate::nearest::nearest;

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    Axis(AxisId),
    Param(ParamId),
    List(ParamId),
    /// A list of constants.
    Constants(Rows),
    Buffer(BufferId),
    Stream(StreamId),
    Signal(SignalId),
    Communicator(CommunicatorId),
    Counter(LoopId),
    Number(ir::Expr),
    /// Part of memory, and whether numbers that are written say where it ends.
    Region(Box<ir::Region>, bool),
    Peer(ir::Peer),
    /// Declared with an error, which was reported.
    Broken,
}

/// The kind that a name must have in its context.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Want {
    Number,
    Memory,
    Stream,
    Signal,
    Communicator,
    Axis,
    /// A peer, or a rank number.
    Peer,
    /// A region, a number or a peer, for a `let`.
    Any,
}

/// The names in scope.
#[derive(Default)]
pub(super) struct Scope {
    plan: HashMap<String, (Meaning, Span)>,
    /// Counters and names of blocks, the innermost last.
    blocks: Vec<(String, Meaning)>,
    /// Declared names in order, for suggestions.
    order: Vec<String>,
    /// The source of each `let`'s value.
    written: HashMap<String, Area>,
    /// Whether the present expression must be the same on all ranks, and so cannot mention the
    /// rank.
    pub(super) same: bool,
}

/// Names with a meaning of their own.
const RESERVED: [&str; 3] = ["rank", "size", "world"];

/// Names that the module's fields and arguments cannot have.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

impl Scope {
    pub(super) fn depth(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn leave(&mut self, depth: usize) {
        self.blocks.truncate(depth);
    }

    pub(super) fn write(&mut self, name: String, area: Area) {
        self.written.insert(name, area);
    }

    /// The source of the value that a `let` of this name has.
    pub(super) fn written(&self, name: &str) -> Option<Area> {
        self.written.get(name).copied()
    }

    fn look(&self, name: &str) -> Option<&Meaning> {
        let inner = self.blocks.iter().rev().find(|(known, _)| known == name);
        inner
            .map(|(_, meaning)| meaning)
            .or_else(|| self.plan.get(name).map(|(meaning, _)| meaning))
    }

    pub(super) fn is_declared(&self, name: &str) -> bool {
        self.look(name).is_some()
    }

    /// The declared names that would fit this context.
    pub(super) fn fitting(&self, want: Want) -> impl Iterator<Item = &str> {
        let outer = self.order.iter().filter_map(|name| Some((name, &self.plan.get(name)?.0)));
        let inner = self.blocks.iter().map(|(name, meaning)| (name, meaning));
        outer.chain(inner).filter(move |(_, meaning)| meaning.fits(want)).map(|(name, _)| &**name)
    }

    /// The names of peers.
    pub(super) fn peers(&self) -> impl Iterator<Item = &str> {
        let peers = self.blocks.iter().filter(|(_, meaning)| match meaning {
            Meaning::Peer(_) => true,
            Meaning::Number(number) => number.mentions_rank(),
            _ => false,
        });
        peers.map(|(name, _)| &**name)
    }
}

impl Meaning {
    fn fits(&self, want: Want) -> bool {
        match self {
            Self::Axis(_) => matches!(want, Want::Axis | Want::Number | Want::Peer | Want::Any),
            Self::Param(_)
            | Self::List(_)
            | Self::Constants(_)
            | Self::Counter(_)
            | Self::Number(_) => {
                matches!(want, Want::Number | Want::Peer | Want::Any)
            }
            Self::Buffer(_) | Self::Region(..) => matches!(want, Want::Memory | Want::Any),
            Self::Stream(_) => want == Want::Stream,
            Self::Signal(_) => want == Want::Signal,
            Self::Communicator(_) => want == Want::Communicator,
            // A peer fits where a rank number does.
            Self::Peer(_) => matches!(want, Want::Peer | Want::Any),
            Self::Broken => false,
        }
    }

    pub(super) fn what(&self) -> &'static str {
        match self {
            Self::Axis(_) => "an axis",
            Self::Param(_) => "a parameter",
            Self::List(_) | Self::Constants(_) => "a list of numbers",
            Self::Buffer(_) => "memory",
            Self::Stream(_) => "a stream",
            Self::Signal(_) => "a signal",
            Self::Communicator(_) => "a communicator",
            Self::Counter(_) => "a counter",
            Self::Number(_) => "a number",
            Self::Region(..) => "part of memory",
            Self::Peer(_) => "another rank",
            Self::Broken => "wrong",
        }
    }
}

impl Want {
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Memory => "memory",
            Self::Stream => "a stream",
            Self::Signal => "a signal",
            Self::Communicator => "a communicator",
            Self::Axis => "an axis",
            Self::Peer => "another rank",
            Self::Any => "a number, memory or another rank",
        }
    }

    fn declare(self, name: &str) -> String {
        match self {
            Self::Number | Self::Peer | Self::Any => {
                format!("declare it as a parameter: `{name}: usize`, or with `let`")
            }
            Self::Memory => format!("declare it: `in {name}: [f32; len];`"),
            Self::Stream => format!("declare it: `stream {name};`"),
            Self::Signal => format!("declare it: `signal {name};`"),
            Self::Communicator => format!("declare it: `comm {name} along axis;`"),
            Self::Axis => format!("declare it: `{name}: Ranks`"),
        }
    }
}

impl Resolver<'_> {
    /// Declares a name for the whole plan.
    pub(super) fn declare(&mut self, name: &Ident, meaning: Meaning) {
        let called = text(name);
        if self.may_be_called(name, &called) {
            self.scope.order.push(called.clone());
            self.scope.plan.insert(called, (meaning, name.span()));
        }
    }

    /// Declares a name for the block.
    pub(super) fn declare_here(&mut self, name: &Ident, meaning: Meaning) {
        let called = text(name);
        if self.may_be_called(name, &called) {
            self.scope.blocks.push((called, meaning));
        }
    }

    fn may_be_called(&mut self, name: &Ident, called: &str) -> bool {
        let fault = if RESERVED.contains(&called) {
            let means = match called {
                "rank" => "this rank's number",
                "size" => "the number of all ranks",
                _ => "the communicator of all ranks",
            };
            Fault::new(name.span(), format!("`{called}` means {means}")).help("choose another name")
        } else if KEYWORDS.contains(&called) {
            Fault::new(name.span(), format!("`{called}` is a keyword of Rust"))
                .help("choose another name: it is also a field or an argument of the plan's module")
        } else if let Some((before, span)) = self.scope.plan.get(called) {
            let (what, line) = (before.what(), span.start().line);
            Fault::new(
                name.span(),
                format!("`{called}` is {what} already, declared in line {line}"),
            )
            .help("choose another name")
        } else if self.scope.blocks.iter().any(|(known, _)| known == called) {
            Fault::new(name.span(), format!("`{called}` already has a meaning here"))
                .help("choose another name")
        } else {
            return true;
        };
        self.faults.push(fault);
        false
    }

    /// Looks up a name for a context. An undeclared name is reported, and the most similar one is
    /// used instead to avoid further errors.
    pub(super) fn look(&mut self, name: &Ident, want: Want) -> Looked<Meaning> {
        let called = text(name);
        match self.scope.look(&called) {
            Some(Meaning::Broken) => Err(Reported),
            Some(meaning) if meaning.fits(want) || want == Want::Any => Ok(meaning.clone()),
            Some(meaning) => {
                let what = meaning.what();
                let near = nearest(&called, self.scope.fitting(want)).map(str::to_owned);
                let fault = Fault::new(
                    name.span(),
                    format!("expected {}, and `{called}` is {what}", want.what()),
                );
                let help = near.map(|near| format!("did you mean `{near}`?"));
                let help = help.or_else(|| match (want, meaning) {
                    (Want::Stream, Meaning::Communicator(_)) => Some(format!(
                        "a communicator goes in front, as in `{called}.all_reduce(x, sum);`"
                    )),
                    (Want::Communicator, Meaning::Stream(_)) => Some(format!(
                        "a stream goes at the end, as in `all_reduce(x, sum) on {called};`"
                    )),
                    _ => self.these(want),
                });
                let help = help.or_else(|| {
                    (want == Want::Peer)
                        .then(|| format!("another rank is, for example, `{}`", self.a_step()))
                });
                self.tell(fault.maybe_help(help))
            }
            None if self.nameless || self.lost.contains(&called) => Err(Reported),
            None => {
                let own = self.own_words(want).iter().copied();
                let near = nearest(&called, own.chain(self.scope.fitting(want)));
                let near = near.map(str::to_owned);
                let fault = Fault::new(name.span(), format!("`{called}` is not declared"));
                let Some(near) = near else {
                    if !self.undeclared.insert(called.clone()) {
                        return Err(Reported);
                    }
                    let these = self.these(want);
                    let declare = match want {
                        Want::Peer => {
                            let back = ["left", "prev", "pred", "before", "above", "up"];
                            let back = back.iter().any(|word| called.starts_with(word));
                            let step = self.a_step();
                            let step = if back { step.replace(" + ", " - ") } else { step };
                            format!("declare it: `let {called} = {step};`")
                        }
                        _ => want.declare(&called),
                    };
                    let help = match these {
                        Some(these) => format!("{these}, or {declare}"),
                        None => declare,
                    };
                    return self.tell(fault.help(help));
                };
                let fault = fault.help(format!("did you mean `{near}`?"));
                // A bare name may be a peer or a number, and is looked up as both.
                if !self.faults.iter().rev().take(2).any(|told| told.is(&fault)) {
                    self.faults.push(fault);
                }
                match &*near {
                    "rank" => Ok(Meaning::Number(ir::Expr::Rank)),
                    "size" => Ok(Meaning::Number(ir::Expr::Size)),
                    near => self.scope.look(near).cloned().ok_or(Reported),
                }
            }
        }
    }

    pub(super) fn is_peer(&self, name: &Ident) -> bool {
        matches!(self.scope.look(&text(name)), Some(Meaning::Peer(_)))
    }

    pub(super) fn is_memory(&self, name: &Ident) -> bool {
        matches!(self.scope.look(&text(name)), Some(Meaning::Buffer(_) | Meaning::Region(..)))
    }

    /// The memory that a name refers to, and whether it refers to a single buffer of an array
    /// already.
    pub(super) fn memory_of(&self, name: &Ident) -> Option<(BufferId, bool)> {
        match self.scope.look(&text(name)) {
            Some(Meaning::Buffer(buffer)) => Some((*buffer, false)),
            Some(Meaning::Region(region, _)) => Some((region.buffer, region.index.is_some())),
            _ => None,
        }
    }

    pub(super) fn stream(&mut self, name: &Ident) -> Looked<StreamId> {
        let Meaning::Stream(stream) = self.look(name, Want::Stream)? else { return Err(Reported) };
        Ok(stream)
    }

    pub(super) fn signal(&mut self, name: &Ident) -> Looked<SignalId> {
        let Meaning::Signal(signal) = self.look(name, Want::Signal)? else { return Err(Reported) };
        Ok(signal)
    }

    pub(super) fn axis(&mut self, name: &Ident) -> Looked<AxisId> {
        let Meaning::Axis(axis) = self.look(name, Want::Axis)? else { return Err(Reported) };
        Ok(axis)
    }

    /// The communicator before a dot; by default, that of all ranks.
    pub(super) fn among(&mut self, through: Option<&Ident>) -> Looked<CommunicatorId> {
        let Some(name) = through else { return Ok(CommunicatorId(0)) };
        if name == "world" {
            return Ok(CommunicatorId(0));
        }
        match self.look(name, Want::Communicator)? {
            Meaning::Communicator(communicator) => Ok(communicator),
            _ => Err(Reported),
        }
    }
}

/// The index of the last item of a list.
pub(super) fn last<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX).saturating_sub(1)
}
