//! Lengths, ranges and overlaps, for every size: what the structure of a plan does not decide.
//!
//! Instances were checked one by one before; here what they found is proved for all others.

mod aliases;
mod arguments;
mod chunks;
mod collective;
mod filled;
mod halves;
mod inside;
mod looked_at;
mod overlap;
mod places;
mod statements;
mod written;

use std::collections::{HashMap, HashSet};

use crate::arith::{Facts, Fuel, Poly, View};
use crate::check::scale;
use crate::check::unbounded::Unbounded;
use crate::ir::{Expr, Hop, Location, Loop, Peer, Plan, Region, StepKind};
use crate::verdict::{Check, Problem, ProblemKind};

/// How many problems are told at most.
const MOST: usize = 100;

const TRANSFER: &str =
    "declare the messages once for both ends, as transfers, or give all one length";
const PROMISE: &str = "if something that holds of the parameters decides it, say that with `where`";

/// Where a region stands: the statement's number, and which of its regions.
pub(crate) type Where = (u32, u16);

/// A region as it is written, with the loops around it, and the peer that it is put at.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Kind<'a> {
    region: Option<&'a Region>,
    peer: Option<&'a Peer>,
    is_put: bool,
    loops: Vec<&'a Loop>,
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
    loops: HashMap<u32, Vec<&'a Loop>>,
    around: Vec<&'a Loop>,
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
    /// What makes everything decidable.
    declare: String,
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
            declare: {
                let free = |fixed: &[bool]| fixed.iter().map(|fixed| !fixed).collect();
                Unbounded::of(plan, free(&axes), free(&params)).declare()
            },
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
            proof.undecided(Check::Postcondition, claim.at, undecided, "");
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
            help: [help, &self.declare].map(str::to_owned).into(),
        });
        let empty = |help: &mut String| !help.is_empty();
        self.problems.last_mut().into_iter().for_each(|problem| problem.help.retain_mut(empty));
    }
}

fn backwards(hops: &[Hop]) -> Vec<Hop> {
    let back = |hop: &Hop| Hop { by: Expr::Int(0) - hop.by.clone(), ..hop.clone() };
    hops.iter().map(back).collect()
}
