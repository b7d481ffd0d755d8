//! Compute steps: methods of the plan's trait.

use std::collections::HashMap;

use proc_macro2::{Ident, TokenStream};
use typed_nccl_plan::ir::{Compute, ElementType, Expr, Location, Place, Region};

use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{self, Argument, ArgumentKind, ExprKind, text};
use crate::fault::Fault;

/// A method that the user writes.
pub(crate) struct Computed {
    pub(crate) name: Ident,
    pub(crate) docs: TokenStream,
    pub(crate) at: Location,
    /// The first statement that runs it.
    pub(crate) area: Area,
    /// Its arguments by unique name, and their kinds.
    pub(crate) arguments: Vec<(String, Shape)>,
    /// Whether all of them are known; otherwise some are guesses.
    known: bool,
    /// The arguments as its first statement gives them.
    pub(crate) says: Vec<String>,
    /// The equations as its first statement gives them.
    pub(crate) computes: Vec<String>,
}

/// The kind of a method's argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Number,
    Read(Holds),
    Write(Holds),
    /// Read and written: counts as both.
    Update(Holds),
}

/// The elements of an argument, and whether it is an array of buffers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Holds {
    pub(crate) element: ElementType,
    pub(crate) array: bool,
}

/// An argument of one statement.
pub(super) struct Given {
    pub(super) kind: ArgumentKind,
    pub(super) value: Value,
}

pub(super) enum Value {
    Number(Expr),
    Region(Region),
}

impl Resolver<'_> {
    pub(super) fn compute(
        &mut self,
        name: &Ident,
        (arguments, known): (&[Argument], bool),
        computes: &[ast::Equation],
        docs: &TokenStream,
        at: Location,
        place: Looked<Place>,
    ) -> Looked<Compute> {
        let given: Vec<_> = arguments.iter().map(|argument| self.given(argument)).collect();
        // The method exists even if not all of its arguments are known, since the user has written
        // it.
        self.declare_method(name, (arguments, known), &given, docs, at);
        let names = names(arguments, &given);
        let given: Vec<Given> = given.into_iter().collect::<Looked<_>>()?;
        let computes = self.equations(name, computes, &names, &given);
        let mut step = Compute {
            name: text(name),
            arguments: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            computes: computes?,
            place: place?,
        };
        for Given { kind, value } in given {
            match (kind, value) {
                (_, Value::Number(number)) => step.arguments.push(number),
                (ArgumentKind::Read, Value::Region(region)) => step.reads.push(region),
                (ArgumentKind::Write, Value::Region(region)) => step.writes.push(region),
                (_, Value::Region(region)) => {
                    step.reads.push(region.clone());
                    step.writes.push(region);
                }
            }
        }
        let spelled = step.computes.iter().map(|one| self.valid.plan.show_equation(&step, one));
        let spelled: Vec<String> = spelled.collect();
        if let Some(first) = self.valid.computed.iter_mut().find(|known| known.at == at) {
            first.computes = spelled;
        }
        Ok(step)
    }

    fn given(&mut self, argument: &Argument) -> Looked<Given> {
        let Argument { kind, value, known } = argument;
        if !known {
            return Err(Reported);
        }
        let value = match kind {
            ArgumentKind::Number => Value::Number(self.numeric(value)?),
            _ => Value::Region(self.region(value)?),
        };
        Ok(Given { kind: *kind, value })
    }

    /// A number; for memory, reports the missing `read`, `write` or `update`.
    fn numeric(&mut self, value: &ast::Expr) -> Looked<Expr> {
        if let Some(root) = value.root()
            && self.is_memory(root)
        {
            let fault =
                Fault::new(value.area, format!("this does not say what is done with `{root}`"));
            return self.tell(fault.help(format!(
                "write `read {root}`, `write {root}`, or `update {root}`, which is both"
            )));
        }
        self.number(value)
    }

    /// Adds the method, or compares it with the first statement of its name.
    fn declare_method(
        &mut self,
        name: &Ident,
        (arguments, known): (&[Argument], bool),
        given: &[Looked<Given>],
        docs: &TokenStream,
        at: Location,
    ) {
        if let Some(fault) = twice(arguments, given) {
            self.faults.push(fault);
        }
        let shapes = arguments.iter().zip(given).map(|(argument, one)| self.shape(argument, one));
        let shapes: Vec<Shape> = shapes.collect();
        let known = known && given.iter().all(Result::is_ok);
        let first = self.valid.computed.iter().position(|known| known.name == *name);
        if let Some(nth) = first
            && (self.valid.computed[nth].known || !known)
        {
            let first = &self.valid.computed[nth];
            let (line, before) = (first.at.line, &first.arguments);
            if known && !before.iter().map(|(_, shape)| shape).eq(&shapes) {
                let before: Vec<String> =
                    before.iter().map(|(_, shape)| shape.to_string()).collect();
                let now: Vec<String> = shapes.iter().map(ToString::to_string).collect();
                let title = format!("`{name}` gets different arguments here and in line {line}");
                let help = format!(
                    "there it gets ({}), here ({}): make them alike, or give this one another name",
                    before.join(", "),
                    now.join(", ")
                );
                self.faults.push(Fault::new(name.span(), title).help(help));
            }
            return;
        }
        let names = names(arguments, given);
        let says = given.iter().flatten().map(|one| self.says(one)).collect();
        let arguments = names.into_iter().zip(shapes).collect();
        let (name, docs) = (name.clone(), docs.clone());
        let area = self.valid.areas.get(&at).copied().unwrap_or_else(|| name.span().into());
        let computed =
            Computed { name, docs, at, area, arguments, known, says, computes: Vec::new() };
        match first {
            // Earlier guesses are known now.
            Some(nth) => self.valid.computed[nth] = computed,
            None => self.valid.computed.push(computed),
        }
    }

    fn shape(&self, argument: &Argument, given: &Looked<Given>) -> Shape {
        let value = &argument.value;
        let memory = match given {
            Ok(Given { value: Value::Region(region), .. }) => {
                Some((region.buffer, region.index.is_some()))
            }
            // Even with errors, it refers to this memory.
            _ => value.root().and_then(|root| self.memory_of(root)),
        };
        let holds = match memory.map(|(buffer, indexed)| (self.buffer(buffer), indexed)) {
            Some((buffer, indexed)) => {
                let array = buffer.array.is_some() && !indexed && !indexes(value);
                Holds { element: buffer.element.clone(), array }
            }
            None => Holds { element: self.some_element(), array: false },
        };
        match argument.kind {
            ArgumentKind::Number => Shape::Number,
            ArgumentKind::Read => Shape::Read(holds),
            ArgumentKind::Write => Shape::Write(holds),
            _ => Shape::Update(holds),
        }
    }

    fn says(&self, given: &Given) -> String {
        let plan = &self.valid.plan;
        match &given.value {
            Value::Number(number) => format!("`{}`", plan.show(number)),
            Value::Region(region) => {
                let does = match given.kind {
                    ArgumentKind::Read => "reads",
                    ArgumentKind::Write => "writes",
                    _ => "updates",
                };
                format!("{does} `{}`", plan.show(region))
            }
        }
    }
}

/// Whether it refers to one buffer of an array, as `g[i]`, `g[i].next` and `g[i][a..b]` do.
fn indexes(value: &ast::Expr) -> bool {
    match &value.kind {
        ExprKind::Index(base, _) if matches!(base.kind, ExprKind::Name(_)) => true,
        ExprKind::Field(base, _)
        | ExprKind::Index(base, _)
        | ExprKind::Slice(base, ..)
        | ExprKind::Method(base, ..) => indexes(base),
        _ => false,
    }
}

/// The error for a region that one step reads and writes without `update`.
fn twice(arguments: &[Argument], given: &[Looked<Given>]) -> Option<Fault> {
    let region = |one: &Looked<Given>| match one {
        Ok(Given { kind, value: Value::Region(region) }) => Some((*kind, region.clone())),
        _ => None,
    };
    for (nth, one) in given.iter().enumerate() {
        let Some((kind, here)) = region(one) else { continue };
        for other in given[..nth].iter().filter_map(region) {
            if other.1 == here {
                let root = arguments[nth].value.root()?;
                let title = match (other.0, kind) {
                    (ArgumentKind::Read, ArgumentKind::Read) => continue,
                    (ArgumentKind::Read, ArgumentKind::Write)
                    | (ArgumentKind::Write, ArgumentKind::Read) => {
                        format!("`{root}` is read and written by one step")
                    }
                    _ => format!("one step gets the same part of `{root}` twice"),
                };
                let help = format!(
                    "say `update {root}` once: the step gets it once, to read and to write"
                );
                return Some(Fault::new(arguments[nth].value.area, title).help(help));
            }
        }
    }
    None
}

/// Unique names for a method's arguments, derived from their values.
fn names(arguments: &[Argument], given: &[Looked<Given>]) -> Vec<String> {
    let mut taken: HashMap<String, usize> = HashMap::from([("stream".to_owned(), 1)]);
    let mut names = Vec::new();
    for (argument, given) in arguments.iter().zip(given) {
        let mut name = match &argument.value.kind {
            ExprKind::Name(name) => text(name),
            _ if argument.kind == ArgumentKind::Number => "number".to_owned(),
            _ => argument.value.root().map_or_else(|| "region".to_owned(), text),
        };
        if matches!(given, Ok(Given { value: Value::Region(region), .. }) if region.next)
            && !name.ends_with("next")
        {
            name.push_str("_next");
        }
        loop {
            let times = taken.entry(name.clone()).or_insert(0);
            *times += 1;
            if *times == 1 {
                break;
            }
            name = format!("{name}_{times}");
        }
        names.push(name);
    }
    names
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (does, holds) = match self {
            Self::Number => return f.write_str("a number"),
            Self::Read(holds) => ("read", holds),
            Self::Write(holds) => ("write", holds),
            Self::Update(holds) => ("update", holds),
        };
        let array = if holds.array { "an array of " } else { "" };
        write!(f, "{does} {array}{}", holds.element)
    }
}
