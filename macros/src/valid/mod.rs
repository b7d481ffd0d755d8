//! Turns the AST into the plan that the checker knows: looks up names and recognises forms.
//!
//! Nothing is decided here that can be decided about a plan as data.

mod assign;
mod claim;
mod collective;
mod compute;
mod equation;
mod header;
mod listed;
mod memory;
mod number;
mod peer;
mod place;
mod region;
mod rings;
mod scope;
mod statement;
mod suggest;

use std::collections::{HashMap, HashSet};

use proc_macro2::{Ident, TokenStream};
use typed_nccl_plan::ir::{self, Location};

use crate::area::Area;
use crate::ast;
use crate::fault::Fault;
pub(crate) use compute::{Computed, Holds, Shape};
pub(crate) use memory::Declared;
use place::Around;
use scope::Scope;

/// A plan with its names looked up, and the data that its module needs in addition.
pub(crate) struct Valid {
    pub(crate) plan: ir::Plan,
    /// The areas of the plan's places.
    pub(crate) areas: HashMap<Location, Area>,
    /// The statements in source order, outer before inner.
    pub(crate) statements: Vec<Area>,
    /// The buffers, in the plan's order.
    pub(crate) memory: Vec<Declared>,
    /// The compute steps, by unique name.
    pub(crate) computed: Vec<Computed>,
    pub(crate) params: Vec<Known>,
}

/// A number, or a list, that is known when the plan is bound.
pub(crate) struct Known {
    pub(crate) name: Ident,
    pub(crate) docs: TokenStream,
    pub(crate) kind: Kind,
    /// Its possible values, in words.
    pub(crate) what: String,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Axis,
    Number,
    /// A constant of the program.
    Constant,
    List,
    /// A list that each run passes.
    Counts,
}

/// Looks up the names of a plan. Unknown ones are reported and left out.
pub(crate) fn valid(plan: &ast::Plan, faults: &mut Vec<Fault>) -> Valid {
    let mut resolver = Resolver {
        valid: header::empty(plan),
        faults,
        scope: Scope::default(),
        files: Vec::new(),
        types: Vec::new(),
        lost: HashSet::new(),
        undeclared: HashSet::new(),
        written_out: 0,
        indexed: HashSet::new(),
        elsewhere: false,
        own_end: false,
        nameless: false,
    };
    resolver.header(plan);
    let around = Around::default();
    let steps = resolver.block(&plan.body, &around, true);
    resolver.valid.plan.steps = steps;
    resolver.type_names(plan);
    resolver.valid.plan.files = resolver.files;
    resolver.valid
}

/// An error was reported, and there is no value to continue with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

pub(crate) type Looked<T> = Result<T, Reported>;

struct Resolver<'f> {
    valid: Valid,
    faults: &'f mut Vec<Fault>,
    scope: Scope,
    files: Vec<String>,
    /// The type parameters, and their bounds if known.
    types: Vec<(String, Option<String>)>,
    /// Names that may be declared in code that could not be parsed: never reported.
    lost: HashSet<String>,
    /// Names reported as undeclared: one report covers every use.
    undeclared: HashSet<String>,
    /// How often blocks were repeated for a value.
    written_out: usize,
    /// Memory that was reported not to be an array.
    indexed: HashSet<ir::BufferId>,
    /// Whether the present region is another rank's.
    elsewhere: bool,
    /// Whether the present region ends with its memory, whose length differs from rank to rank.
    own_end: bool,
    /// A declaration had no name: undeclared names are not reported.
    nameless: bool,
}

impl Resolver<'_> {
    fn tell<T>(&mut self, fault: Fault) -> Looked<T> {
        self.faults.push(fault);
        Err(Reported)
    }

    /// Suppresses further reports about lost names.
    fn lose(&mut self, lost: &ast::Lost) {
        self.lost.extend(lost.names.iter().cloned());
        self.nameless |= lost.nameless;
    }

    /// The place of something, which is recorded.
    fn at(&mut self, area: impl Into<Area>) -> Location {
        let area = area.into();
        let file = area.first.file();
        let file = self.files.iter().position(|known| *known == file).unwrap_or_else(|| {
            self.files.push(file);
            self.files.len() - 1
        });
        let at = Location { file: u16::try_from(file).unwrap_or(u16::MAX), ..area.start() };
        self.valid.areas.entry(at).or_insert(area);
        at
    }
}
