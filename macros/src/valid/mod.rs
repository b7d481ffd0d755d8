//! From what is written to the plan that the checker knows: names are looked up, forms are recognised.
//!
//! Nothing is decided here that can be decided about a plan as data.

mod collective;
mod compute;
mod equation;
mod header;
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

/// A plan whose names are looked up, and what its module needs that is not in it.
pub(crate) struct Valid {
    pub(crate) plan: ir::Plan,
    /// What stands at the places of the plan.
    pub(crate) areas: HashMap<Location, Area>,
    /// The statements in the order in which they are written, each before what is inside it.
    pub(crate) statements: Vec<Area>,
    /// The buffers, in the plan's order.
    pub(crate) memory: Vec<Declared>,
    /// The compute steps, each name once.
    pub(crate) computed: Vec<Computed>,
    pub(crate) params: Vec<Known>,
}

/// A number, or a list, that is known when the plan is bound.
pub(crate) struct Known {
    pub(crate) name: Ident,
    pub(crate) docs: TokenStream,
    pub(crate) kind: Kind,
    /// What it may be, for people.
    pub(crate) what: String,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Axis,
    Number,
    /// A number that is a constant of the program.
    Constant,
    List,
}

/// Looks up the names of a plan. What cannot be is told, and left out.
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
        nameless: false,
    };
    resolver.header(plan);
    let around = Around::default();
    let steps = resolver.block(&plan.body, &around, true);
    resolver.valid.plan.steps = steps;
    resolver.valid.plan.files = resolver.files;
    resolver.valid
}

/// What failed was told; there is nothing to go on with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told;

pub(crate) type Looked<T> = Result<T, Told>;

struct Resolver<'f> {
    valid: Valid,
    faults: &'f mut Vec<Fault>,
    scope: Scope,
    files: Vec<String>,
    /// The type parameters, and their bounds where they are known.
    types: Vec<(String, Option<String>)>,
    /// Names that something which was not understood may declare: nothing is told of them.
    lost: HashSet<String>,
    /// Names of which it was told that nothing declares them: one declaration is enough for every use.
    undeclared: HashSet<String>,
    /// How often blocks were written out for a value.
    written_out: usize,
    /// Memory of which it was told that it is no array.
    indexed: HashSet<ir::BufferId>,
    /// Something was declared without its name: no name is told not to be declared.
    nameless: bool,
}

impl Resolver<'_> {
    fn tell<T>(&mut self, fault: Fault) -> Looked<T> {
        self.faults.push(fault);
        Err(Told)
    }

    /// Of names that were lost, nothing more is told.
    fn lose(&mut self, lost: &ast::Lost) {
        self.lost.extend(lost.names.iter().cloned());
        self.nameless |= lost.nameless;
    }

    /// The place of something, which is remembered.
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
