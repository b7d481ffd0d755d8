//! Numbers and conditions.

use super::{Fault, Formula, Read};
use crate::ir::names::Meaning;
use crate::ir::{AxisId, Comparison, Condition, Expr, MOST_NESTING, ParamId};

/// How deep parentheses and the like stand in each other at most.
const MOST_DEPTH: usize = 256;

/// How deep a number may be: a peer's has a rank and an extent around its distance.
const DEEPEST: usize = MOST_NESTING + 2;

/// What is read, with how deep it is.
enum Term {
    Number(Expr, usize),
    Truth(Condition, usize),
}

/// How tightly operators bind.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Or,
    And,
    Compare,
    Sum,
    Product,
    Atom,
}

/// What stands between two terms.
#[derive(Clone, Copy)]
enum Operator {
    List(fn(Vec<Condition>) -> Condition),
    Compare(Comparison),
    Arithmetic(fn(Box<Expr>, Box<Expr>) -> Expr),
}

/// Longer ones first where one begins another.
const OPERATORS: [(&str, Level, Operator); 13] = [
    ("||", Level::Or, Operator::List(Condition::Any)),
    ("&&", Level::And, Operator::List(Condition::All)),
    ("==", Level::Compare, Operator::Compare(Comparison::Equal)),
    ("!=", Level::Compare, Operator::Compare(Comparison::NotEqual)),
    ("<=", Level::Compare, Operator::Compare(Comparison::LessOrEqual)),
    (">=", Level::Compare, Operator::Compare(Comparison::GreaterOrEqual)),
    ("<", Level::Compare, Operator::Compare(Comparison::Less)),
    (">", Level::Compare, Operator::Compare(Comparison::Greater)),
    ("+", Level::Sum, Operator::Arithmetic(Expr::Add)),
    ("-", Level::Sum, Operator::Arithmetic(Expr::Sub)),
    ("*", Level::Product, Operator::Arithmetic(Expr::Mul)),
    ("/", Level::Product, Operator::Arithmetic(Expr::Div)),
    ("%", Level::Product, Operator::Arithmetic(Expr::Rem)),
];

impl Formula<'_> {
    /// A number that is the whole text.
    pub(in crate::json) fn whole_number(mut self) -> Read<Expr> {
        let number = self.number()?;
        self.end()?;
        Ok(number)
    }

    /// A condition that is the whole text.
    pub(in crate::json) fn whole_condition(mut self) -> Read<Condition> {
        let term = self.binary(Level::Or)?;
        let (condition, _) = self.truth(term)?;
        self.end()?;
        Ok(condition)
    }

    pub(super) fn number(&mut self) -> Read<Expr> {
        let term = self.binary(Level::Or)?;
        Ok(self.counted(term)?.0)
    }

    /// Terms between operators that bind as tightly as `least`, or more.
    fn binary(&mut self, least: Level) -> Read<Term> {
        let mut left = self.atom()?;
        loop {
            self.space();
            let rest = self.rest();
            let next = OPERATORS.iter().find(|(sign, ..)| rest.starts_with(sign));
            let Some((sign, level, operator)) = next.filter(|(_, level, _)| *level >= least) else {
                return Ok(left);
            };
            left = match operator {
                Operator::Arithmetic(make) => {
                    let (a, deep) = self.counted(left)?;
                    self.at += sign.len();
                    let above = if *level == Level::Sum { Level::Product } else { Level::Atom };
                    let right = self.binary(above)?;
                    let (b, deeper) = self.counted(right)?;
                    self.made(make(Box::new(a), Box::new(b)), 1 + deep.max(deeper))?
                }
                Operator::Compare(_) if matches!(left, Term::Truth(..)) => {
                    return self.fault("one comparison alone expected: join several with `&&`");
                }
                Operator::Compare(comparison) => {
                    let (a, _) = self.counted(left)?;
                    self.at += sign.len();
                    let right = self.binary(Level::Sum)?;
                    let (b, _) = self.counted(right)?;
                    Term::Truth(Condition::Compare(a, *comparison, b), 1)
                }
                Operator::List(make) => {
                    let (first, mut deepest) = self.truth(left)?;
                    let mut list = vec![first];
                    let above = if *level == Level::Or { Level::And } else { Level::Compare };
                    while self.take(sign) {
                        let term = self.binary(above)?;
                        let (one, deep) = self.truth(term)?;
                        list.push(one);
                        deepest = deepest.max(deep);
                    }
                    self.held(make(list), deepest + 1)?
                }
            };
        }
    }

    /// One deeper into the text, which the stack bounds.
    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth == MOST_DEPTH {
            return self.fault(format!("nested more than {MOST_DEPTH} deep"));
        }
        self.depth += 1;
        let term = read(self);
        self.depth -= 1;
        term
    }

    fn atom(&mut self) -> Read<Term> {
        self.space();
        let rest = self.rest();
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let minus = usize::from(rest.starts_with('-'));
        match digits(&rest[minus..]) {
            0 => {}
            digits => {
                let number = &rest[..minus + digits];
                let Ok(value) = number.parse() else {
                    return self.fault("a number of 64 bits expected");
                };
                self.at += number.len();
                return self.made(Expr::Int(value), 1);
            }
        }
        if self.take("-") {
            let term = self.inside(Self::atom)?;
            let (number, deep) = self.counted(term)?;
            let number = Expr::Sub(Box::new(Expr::Int(0)), Box::new(number));
            return self.made(number, 1 + deep);
        }
        if self.take("!") {
            let term = self.inside(Self::atom)?;
            let (condition, deep) = self.truth(term)?;
            return self.held(Condition::Not(Box::new(condition)), 1 + deep);
        }
        if self.take("(") {
            let term = self.inside(|this| this.binary(Level::Or))?;
            self.must(")")?;
            return Ok(term);
        }
        let (begins, quoted) = (self.at, rest.starts_with('`'));
        let Some(name) = self.name()? else {
            return self.fault("a number or a condition expected");
        };
        if !quoted {
            match &*name {
                "r" if self.dot() => return self.coordinate(),
                "r" => return self.made(Expr::Rank, 1),
                "size" => return self.made(Expr::Size, 1),
                "true" => return self.held(Condition::All(Vec::new()), 1),
                "false" => return self.held(Condition::Any(Vec::new()), 1),
                "all" if self.take("(") => return self.listed(Condition::All),
                "any" if self.take("(") => return self.listed(Condition::Any),
                qualifier => {
                    if let Some((kind, meaning)) = self.declared.qualified(qualifier)
                        && self.dot()
                    {
                        let name = self.name()?.unwrap_or_default();
                        let Some(id) = kind.id(&name) else {
                            let fault = Fault::Name(kind.what, name.into_owned(), kind.declared());
                            return Err(Box::new(fault));
                        };
                        return self.mention(meaning(id));
                    }
                }
            }
        }
        match self.declared.names.meaning(&name) {
            Some(Meaning::Ambiguous) => {
                self.at = begins;
                self.fault(format!(
                    "several things are called so: write `axis.{name}`, `param.{name}` or `counter.{name}`"
                ))
            }
            Some(meaning) => self.mention(meaning),
            None => {
                let declared = self.declared.numbers();
                Err(Box::new(Fault::Name("number", name.into_owned(), declared)))
            }
        }
    }

    /// Whether a name follows after a dot. Two dots are a range's.
    fn dot(&mut self) -> bool {
        self.space();
        !self.rest().starts_with("..") && self.take(".")
    }

    fn coordinate(&mut self) -> Read<Term> {
        let Some(name) = self.name()? else { return self.fault("the name of an axis expected") };
        let axes = &self.declared.axes;
        match axes.id(&name) {
            Some(id) => self.made(Expr::Coordinate(AxisId(id)), 1),
            None => Err(Box::new(Fault::Name(axes.what, name.into_owned(), axes.declared()))),
        }
    }

    /// `all(..)` and `any(..)`, which lists of one need.
    fn listed(&mut self, make: fn(Vec<Condition>) -> Condition) -> Read<Term> {
        let (mut list, mut deepest) = (Vec::new(), 0);
        while !self.take(")") {
            if !list.is_empty() {
                self.must(",")?;
            }
            let term = self.inside(|this| this.binary(Level::Or))?;
            let (one, deep) = self.truth(term)?;
            list.push(one);
            deepest = deepest.max(deep);
        }
        self.held(make(list), deepest + 1)
    }

    fn mention(&mut self, meaning: Meaning) -> Read<Term> {
        let number = match meaning {
            Meaning::Axis(axis) => Expr::Extent(axis),
            Meaning::Counter(counter) => Expr::Loop(counter),
            Meaning::Param(param) if self.take("[") => return self.element(param),
            Meaning::Param(param) => Expr::Param(param),
            Meaning::Ambiguous => return self.fault("a name of one thing expected"),
        };
        self.made(number, 1)
    }

    fn element(&mut self, param: ParamId) -> Read<Term> {
        let term = self.inside(|this| this.binary(Level::Or))?;
        let (index, deep) = self.counted(term)?;
        self.must("]")?;
        self.made(Expr::Element(param, Box::new(index)), deep + 1)
    }

    /// A number that was read, unless there are too many or it is too deep.
    fn made(&mut self, number: Expr, deep: usize) -> Read<Term> {
        self.spend(deep, DEEPEST)?;
        Ok(Term::Number(number, deep))
    }

    /// The same for a condition.
    fn held(&mut self, condition: Condition, deep: usize) -> Read<Term> {
        self.spend(deep, MOST_NESTING)?;
        Ok(Term::Truth(condition, deep))
    }

    fn spend(&mut self, deep: usize, deepest: usize) -> Read<()> {
        if deep > deepest {
            return self
                .fault(format!("nested more than {MOST_NESTING} deep: balance it, or split it"));
        }
        match self.budget.checked_sub(1) {
            Some(left) => *self.budget = left,
            None => return self.fault("the file has more numbers than a plan may: split the plan"),
        }
        Ok(())
    }

    fn counted(&self, term: Term) -> Read<(Expr, usize)> {
        match term {
            Term::Number(number, deep) => Ok((number, deep)),
            Term::Truth(..) => self.fault("a condition stands where a number is expected"),
        }
    }

    fn truth(&self, term: Term) -> Read<(Condition, usize)> {
        match term {
            Term::Truth(condition, deep) => Ok((condition, deep)),
            Term::Number(..) => {
                self.fault("a number stands where a condition is expected: compare it")
            }
        }
    }
}
