//! From a file's values to a plan.

mod declarations;
mod steps;

use super::JsonError;
use super::formula::{BUDGET, Fault, Formula};
use super::names::{Counters, Declared, Kind as Names};
use super::node::{Fields, File, Node, short};
use super::tree::{Kind, Source};
use crate::ir::{Condition, Expr, LoopId, Peer, Plan, Region};
use crate::verdict::Rejected;

/// The text as a plan that is well formed.
pub(super) fn plan(text: &str) -> Result<Plan, JsonError> {
    let source = Source::new(text);
    let top = source.parse()?;
    version(&top.kind)?;
    let located = match &top.kind {
        Kind::Object(entries) => entries.iter().all(|(key, _)| key != "files"),
        _ => false,
    };
    let file = File { source: &source, located };
    let node = Node::top(&file, &top);
    let plan = declarations::plan(&node)?;
    let problems = plan.validate();
    if problems.is_empty() {
        return Ok(plan);
    }
    Err(JsonError::NotAPlan(Rejected { plan: plan.name, files: plan.files, problems }))
}

/// That this is a plan in the format that is read here.
fn version(top: &Kind<'_>) -> Result<(), JsonError> {
    let version = match top {
        Kind::Object(entries) => {
            entries.iter().find(|(key, _)| key == super::VERSION_KEY).map(|(_, value)| &value.kind)
        }
        _ => return Err(JsonError::Version { found: "this is no object".to_owned() }),
    };
    let found = match version {
        Some(Kind::Number(number)) if *number == super::VERSION => return Ok(()),
        Some(Kind::Number(number)) => format!("this one says {}", short(number)),
        Some(_) => "this one says something else".to_owned(),
        None => "this one does not have it".to_owned(),
    };
    Err(JsonError::Version { found })
}

/// What reading statements and declarations needs.
struct Reader<'d> {
    declared: &'d Declared<'d>,
    counters: Counters<'d>,
    /// The counters of the loops around what is read.
    scope: Vec<LoopId>,
    budget: usize,
}

impl<'d> Reader<'d> {
    fn new(declared: &'d Declared<'d>) -> Self {
        let counters = Counters::new(declared.names.plan);
        Self { declared, counters, scope: Vec::new(), budget: BUDGET }
    }

    fn formula<T>(
        &mut self,
        node: &Node<'_>,
        text: &str,
        read: impl FnOnce(Formula<'_>) -> Result<T, Box<Fault>>,
    ) -> Result<T, JsonError> {
        let formula = Formula::new(self.declared, &self.scope, text, &mut self.budget);
        read(formula).map_err(|fault| {
            let ((line, column), path) = (node.place(), node.path());
            match *fault {
                Fault::Name(kind, name, declared) => {
                    let name = short(&name).to_owned();
                    JsonError::Name { path, line, column, kind, name, declared }
                }
                Fault::At(at, what) => {
                    let (before, after) = around(text, at);
                    JsonError::Formula { path, line, column, what, before, after }
                }
            }
        })
    }

    /// A number: a whole one, or a text.
    fn number(&mut self, node: &Node<'_>) -> Result<Expr, JsonError> {
        let what = "a whole number of 64 bits, or a text such as \"(r + 1) % n\",";
        match node.kind() {
            Kind::Text(text) => self.formula(node, text, |formula| formula.whole_number()),
            _ => Ok(Expr::Int(node.whole(what)?)),
        }
    }

    fn condition(&mut self, node: &Node<'_>) -> Result<Condition, JsonError> {
        let text = node.text("a condition such as \"r < 2 && m >= 4\"")?;
        self.formula(node, text, |formula| formula.whole_condition())
    }

    fn region(&mut self, node: &Node<'_>) -> Result<Region, JsonError> {
        let text = node.text("part of a buffer, such as \"u[0 .. h]\",")?;
        self.formula(node, text, |formula| formula.region())
    }

    fn peer(&mut self, node: &Node<'_>) -> Result<Peer, JsonError> {
        match node.kind() {
            Kind::Text(text) => self.formula(node, text, |formula| formula.peer()),
            // Along no axis: this rank.
            Kind::List(list) if list.is_empty() => Ok(Peer::Shift(Vec::new())),
            Kind::Object(_) => {
                let fields = node.object("a peer", &["rank"])?;
                Ok(Peer::Rank(self.number(&fields.need("rank")?)?))
            }
            _ => Err(node.expected("a peer such as \"(r + 1) % n\" or {\"rank\": \"0\"}")),
        }
    }

    /// The counter of a loop or an array.
    fn counter(&mut self, node: &Node<'_>, fields: &Fields<'_>) -> Result<LoopId, JsonError> {
        // That there is one of this name.
        self.id(node, &self.declared.counters)?;
        let nth = fields.maybe("nth");
        let which = nth.map(|nth| nth.whole("a whole number")).transpose()?;
        let id = self.counters.take(node.text("the name of a counter")?, which);
        let wrong = || nth.unwrap_or(*node).expected("which of the counters of that name, from 1,");
        Ok(LoopId(id.ok_or_else(wrong)?))
    }

    /// What a name stands for.
    fn id(&self, node: &Node<'_>, kind: &Names<'_>) -> Result<u32, JsonError> {
        let name = node.text(&format!("the name of a {}", kind.what))?;
        kind.id(name).ok_or_else(|| {
            let (line, column) = node.place();
            let (name, declared) = (short(name).to_owned(), kind.declared());
            JsonError::Name { path: node.path(), line, column, kind: kind.what, name, declared }
        })
    }
}

/// Up to 40 characters before and after a byte of a text.
fn around(text: &str, at: usize) -> (String, String) {
    let (before, after) = text.split_at(at);
    let begins = before.char_indices().rev().nth(39).map_or(0, |(at, _)| at);
    (before[begins..].to_owned(), after.chars().take(40).collect())
}
