//! Statements of a plan's body.

use proc_macro2::{Ident, TokenStream};
use typed_nccl_plan::ir::{CollectiveName, Operator as Arithmetic, Role};

use super::Expr;
use crate::area::Area;

pub(crate) type Block = Vec<Statement>;

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) docs: TokenStream,
    pub(crate) kind: StatementKind,
    pub(crate) place: StreamClause,
    /// The whole statement; for a block, the part before its brace.
    pub(crate) area: Area,
}

/// `on net after cmp`
#[derive(Debug, Default)]
pub(crate) struct StreamClause {
    pub(crate) on: Option<Ident>,
    pub(crate) after: Vec<Ident>,
    /// More followed that could not be parsed.
    pub(crate) unknown: bool,
}

#[derive(Debug)]
pub(crate) enum StatementKind {
    Memory(Memory),
    Streams(Vec<Ident>),
    Signals(Vec<Ident>),
    Communicator {
        name: Ident,
        along: Vec<Ident>,
    },
    Let {
        name: Ident,
        value: Expr,
    },
    /// `const edges = [(0, 1), (1, 3)];`
    Const {
        name: Ident,
        rows: Vec<Row>,
    },
    Covers(Expr),
    Computes(Collective),
    /// `computes b = a of rank - 1;`, or several in a block.
    Claims(Block),
    /// `here b = a of rank - 1;`, or several in a block: what memory holds at this place.
    Here(Block),
    Send {
        through: Option<Ident>,
        from: Expr,
        peer: Expr,
        into: Option<Expr>,
    },
    Receive {
        through: Option<Ident>,
        into: Expr,
        peer: Expr,
    },
    Put {
        through: Option<Ident>,
        from: Expr,
        peer: Expr,
        into: Expr,
        signal: Option<Ident>,
    },
    Signal {
        through: Option<Ident>,
        signal: Ident,
        peer: Expr,
    },
    Wait {
        through: Option<Ident>,
        signals: Vec<Awaited>,
    },
    Collective(Collective),
    Run {
        name: Ident,
        arguments: Vec<Argument>,
        /// Whether the list is complete.
        known: bool,
        computes: Vec<Equation>,
    },
    Assign {
        to: Expr,
        /// The operator of an update such as `+=`.
        update: Option<Arithmetic>,
        value: Assigned,
    },
    Group(Block),
    Sequence(Block),
    On(Block),
    For {
        counted: Counted,
        reverse: bool,
        body: Block,
    },
    /// `for d in [1, 2, 4] { .. }`, `for (a, b) in edges { .. }`
    Each {
        names: Vec<Ident>,
        list: Listed,
        body: Block,
    },
    If {
        condition: Expr,
        then: Block,
        otherwise: Option<Block>,
    },
    /// Could not be parsed, and was reported.
    Broken {
        lost: Lost,
        bodies: Vec<Block>,
    },
}

/// `i in 0..k`, `d in powers of 2 below n`
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) counter: Ident,
    pub(crate) from: Expr,
    pub(crate) to: Expr,
    /// The base, if the counter takes only its powers.
    pub(crate) powers: Option<Expr>,
}

/// A list that a loop goes through.
#[derive(Debug)]
pub(crate) enum Listed {
    Rows(Vec<Row>),
    Named(Ident),
}

/// `2`, `(0, 1)`
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) numbers: Vec<Expr>,
    pub(crate) area: Area,
}

/// Declarations that may be in code that could not be parsed.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    pub(crate) names: Vec<String>,
    /// A declaration without a name.
    pub(crate) nameless: bool,
}

/// `inout swapped window u, v: [T; m]`
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) role: Role,
    pub(crate) swapped: bool,
    pub(crate) window: bool,
    pub(crate) names: Vec<MemoryName>,
    /// One of the names was missing, which was reported.
    pub(crate) nameless: bool,
    /// Both are present unless an error in them was reported.
    pub(crate) element: Option<Ident>,
    pub(crate) len: Option<Expr>,
}

/// `g[i in 0..k]`
#[derive(Debug)]
pub(crate) struct MemoryName {
    pub(crate) name: Ident,
    pub(crate) array: Option<(Ident, Expr)>,
}

/// `rail.all_reduce(a -> b, sum)`
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    pub(crate) through: Option<Ident>,
    pub(crate) name: Ident,
    pub(crate) which: CollectiveName,
    pub(crate) send: Expr,
    /// Without it the collective runs in place.
    pub(crate) recv: Option<Expr>,
    /// The arguments besides the root: the reduction, or something in its place.
    pub(crate) others: Vec<Expr>,
    pub(crate) root: Option<Expr>,
    pub(crate) area: Area,
}

/// `2 of hi from right`
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) times: Option<Expr>,
    pub(crate) signal: Ident,
    pub(crate) peer: Expr,
}

#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) kind: ArgumentKind,
    pub(crate) value: Expr,
    /// Whether it was parsed without errors; otherwise it is a guess.
    pub(crate) known: bool,
}

/// `b += a`, `b = min(a, c)`
#[derive(Debug)]
pub(crate) struct Equation {
    pub(crate) to: Expr,
    /// The operator of an update such as `+=`.
    pub(crate) update: Option<Arithmetic>,
    pub(crate) value: Expr,
}

/// The right side of an assignment.
#[derive(Debug)]
pub(crate) enum Assigned {
    /// `a`, `a + c`, `min(a, c)`
    Reduced(Expr),
    /// `avg(a, c)`
    Average(Vec<Expr>, Area),
    /// `a of rank - 1`, `a of 0 + a of 1`, `sum(for r in 0..n { a of r })`.
    OfRanks {
        /// The reduction by its name.
        by: Option<Ident>,
        /// The sign between the terms.
        sign: Option<Arithmetic>,
        terms: Vec<Term>,
        area: Area,
    },
}

/// Memory of ranks, in an assignment or a claim.
#[derive(Debug)]
pub(crate) enum Term {
    /// `a of rank - 1`; without a rank, of this one.
    Memory {
        region: Expr,
        of: Option<Expr>,
    },
    For {
        counted: Counted,
        body: Vec<Self>,
    },
    Each {
        names: Vec<Ident>,
        list: Listed,
        body: Vec<Self>,
    },
    If {
        condition: Expr,
        then: Vec<Self>,
        otherwise: Vec<Self>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ArgumentKind {
    Number,
    Read,
    Write,
    Update,
}
