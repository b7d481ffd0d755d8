//! Numbers and conditions.
//!
//! Read with stacks of their own instead of recursion: a file decides how deep its texts go.

use super::{Fault, Formula, Read};
use crate::ir::names::Meaning;
use crate::ir::{AxisId, Comparison, Condition, Expr, LoopId, MOST_NESTING, ParamId};

/// How many operators and parentheses may wait for what comes after them.
const MOST_PENDING: usize = 1_024;

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

/// What waits for terms.
#[derive(Clone, Copy)]
enum Pending {
    Minus,
    Not,
    Infix(Level, Operator),
    /// `(`
    Group,
    /// The `[` of a list's element.
    Element(ParamId),
    /// `all(` or `any(`, with how many terms were there before.
    Listed(fn(Vec<Condition>) -> Condition, usize),
}

/// A number or a condition that is being read.
#[derive(Default)]
struct Sentence {
    terms: Vec<Term>,
    pending: Vec<Pending>,
}

impl Formula<'_> {
    /// A number that is the whole text.
    pub(in crate::json) fn whole_number(mut self) -> Read<Expr> {
        let number = self.number()?;
        self.end()?;
        Ok(number)
    }

    /// A condition that is the whole text.
    pub(in crate::json) fn whole_condition(mut self) -> Read<Condition> {
        let term = self.term()?;
        let (condition, _) = self.truth(term)?;
        self.end()?;
        Ok(condition)
    }

    pub(super) fn number(&mut self) -> Read<Expr> {
        let term = self.term()?;
        Ok(self.counted(term)?.0)
    }

    /// The longest term that comes next.
    fn term(&mut self) -> Read<Term> {
        let mut so_far = Sentence::default();
        loop {
            if !self.operand(&mut so_far)? {
                continue;
            }
            // A term is complete: what follows it decides.
            loop {
                while let Some(sign @ (Pending::Minus | Pending::Not)) =
                    so_far.pending.last().copied()
                {
                    so_far.pending.pop();
                    let term = self.popped(&mut so_far)?;
                    so_far.terms.push(self.signed(sign, term)?);
                }
                if self.operator(&mut so_far)? {
                    break;
                }
                self.reduce(&mut so_far, Level::Or)?;
                let open = so_far.pending.pop();
                let closes = match open {
                    None => return self.popped(&mut so_far),
                    Some(Pending::Element(_)) => "]",
                    Some(_) => ")",
                };
                if let Some(Pending::Listed(..)) = open
                    && self.take(",")
                {
                    so_far.pending.extend(open);
                    break;
                }
                self.must(closes)?;
                self.close(&mut so_far, open)?;
            }
        }
    }

    /// Reads what stands where a term begins; whether one is complete.
    fn operand(&mut self, so_far: &mut Sentence) -> Read<bool> {
        if so_far.pending.len() > MOST_PENDING {
            return self.fault(format!("more than {MOST_PENDING} open operators and parentheses"));
        }
        self.space();
        let rest = self.rest();
        let minus = usize::from(rest.starts_with('-'));
        let digits = rest.bytes().skip(minus).take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let number = &rest[..minus + digits];
            let Ok(value) = number.parse() else {
                return self.fault("a number of 64 bits expected");
            };
            self.at += number.len();
            so_far.terms.push(self.made(Expr::Int(value), 1)?);
            return Ok(true);
        }
        for (sign, opens) in [("-", Pending::Minus), ("!", Pending::Not), ("(", Pending::Group)] {
            if self.take(sign) {
                so_far.pending.push(opens);
                return Ok(false);
            }
        }
        let (begins, quoted) = (self.at, rest.starts_with('`'));
        let Some(name) = self.name()? else {
            return self.fault("a number or a condition expected");
        };
        let word = if quoted { "" } else { &*name };
        let meaning = match word {
            "r" | "size" | "true" | "false" => {
                let term = self.word(word)?;
                so_far.terms.push(term);
                return Ok(true);
            }
            "all" | "any" if self.take("(") => {
                let make = if word == "all" { Condition::All } else { Condition::Any };
                if self.take(")") {
                    so_far.terms.push(self.held(make(Vec::new()), 1)?);
                    return Ok(true);
                }
                so_far.pending.push(Pending::Listed(make, so_far.terms.len()));
                return Ok(false);
            }
            "axis" | "param" | "counter" if self.dot() => self.qualified(word)?,
            _ => self.meaning(&name, begins)?,
        };
        let number = match meaning {
            Meaning::Param(param) if self.take("[") => {
                so_far.pending.push(Pending::Element(param));
                return Ok(false);
            }
            Meaning::Axis(axis) => Expr::Extent(axis),
            Meaning::Counter(counter) => Expr::Loop(self.around(counter)),
            Meaning::Param(param) => Expr::Param(param),
            Meaning::Ambiguous => return self.fault("a name of one thing expected"),
        };
        so_far.terms.push(self.made(number, 1)?);
        Ok(true)
    }

    /// The counter of that name that a loop around counts, if one does.
    fn around(&self, counter: LoopId) -> LoopId {
        let counters = &self.declared.names.plan.counters;
        let name = |id: LoopId| counters.get(id.index()).map(|counter| &counter.name);
        let around = self.scope.iter().rev().find(|id| name(**id) == name(counter));
        around.copied().unwrap_or(counter)
    }

    /// A word that is no name.
    fn word(&mut self, word: &str) -> Read<Term> {
        match word {
            "r" if self.dot() => {
                let Some(name) = self.name()? else {
                    return self.fault("the name of an axis expected");
                };
                let axes = &self.declared.axes;
                let Some(id) = axes.id(&name) else {
                    let fault = Fault::Name(axes.what, name.into_owned(), axes.declared());
                    return Err(Box::new(fault));
                };
                self.made(Expr::Coordinate(AxisId(id)), 1)
            }
            "r" => self.made(Expr::Rank, 1),
            "size" => self.made(Expr::Size, 1),
            "true" => self.held(Condition::All(Vec::new()), 1),
            _ => self.held(Condition::Any(Vec::new()), 1),
        }
    }

    /// Whether a name follows after a dot. Two dots are a range's.
    fn dot(&mut self) -> bool {
        self.space();
        !self.rest().starts_with("..") && self.take(".")
    }

    /// The name after `axis.` and the like.
    fn qualified(&mut self, qualifier: &str) -> Read<Meaning> {
        let name = self.name()?.unwrap_or_default();
        let Some((kind, meaning)) = self.declared.qualified(qualifier) else {
            return self.fault("a name expected");
        };
        match kind.id(&name) {
            Some(id) => Ok(meaning(id)),
            None => Err(Box::new(Fault::Name(kind.what, name.into_owned(), kind.declared()))),
        }
    }

    /// What a name means that stands alone, and began there.
    fn meaning(&mut self, name: &str, begins: usize) -> Read<Meaning> {
        match self.declared.names.meaning(name) {
            Some(Meaning::Ambiguous) => {
                self.at = begins;
                self.fault(
                    "several things are called so: write `axis.`, `param.` or `counter.` before it",
                )
            }
            Some(meaning) => Ok(meaning),
            None => {
                let declared = self.declared.numbers();
                Err(Box::new(Fault::Name("number", name.to_owned(), declared)))
            }
        }
    }

    /// Reads an operator, if one comes next, after what binds as tightly before it is put together.
    fn operator(&mut self, so_far: &mut Sentence) -> Read<bool> {
        self.space();
        let rest = self.rest();
        let next = OPERATORS.iter().find(|(sign, ..)| rest.starts_with(sign));
        let Some((sign, level, operator)) = next else { return Ok(false) };
        let tighter = match level {
            Level::Or => Level::And,
            Level::And => Level::Compare,
            Level::Compare | Level::Sum => Level::Sum,
            Level::Product => Level::Product,
        };
        self.reduce(so_far, tighter)?;
        if let (Level::Compare, Some(Pending::Infix(Level::Compare, _))) =
            (level, so_far.pending.last())
        {
            return self.fault("one comparison alone expected: join several with `&&`");
        }
        self.at += sign.len();
        so_far.pending.push(Pending::Infix(*level, *operator));
        Ok(true)
    }

    /// Puts together what operators of this level or a tighter one stand between.
    fn reduce(&mut self, so_far: &mut Sentence, least: Level) -> Read<()> {
        while let Some(Pending::Infix(level, operator)) = so_far.pending.last().copied()
            && level >= least
        {
            so_far.pending.pop();
            let term = match operator {
                Operator::List(make) => {
                    // All of `a && b && c` is one list.
                    let mut count = 2;
                    while let Some(Pending::Infix(before, _)) = so_far.pending.last()
                        && *before == level
                    {
                        so_far.pending.pop();
                        count += 1;
                    }
                    let begins = so_far.terms.len().saturating_sub(count);
                    self.listed(so_far, make, begins)?
                }
                Operator::Compare(comparison) => {
                    let right = self.popped(so_far)?;
                    let left = self.popped(so_far)?;
                    let ((a, _), (b, _)) = (self.counted(left)?, self.counted(right)?);
                    self.held(Condition::Compare(a, comparison, b), 1)?
                }
                Operator::Arithmetic(make) => {
                    let right = self.popped(so_far)?;
                    let left = self.popped(so_far)?;
                    let ((a, deep), (b, deeper)) = (self.counted(left)?, self.counted(right)?);
                    self.made(make(Box::new(a), Box::new(b)), 1 + deep.max(deeper))?
                }
            };
            so_far.terms.push(term);
        }
        Ok(())
    }

    /// Puts together what stood in parentheses or brackets.
    fn close(&mut self, so_far: &mut Sentence, open: Option<Pending>) -> Read<()> {
        let term = match open {
            Some(Pending::Element(param)) => {
                let term = self.popped(so_far)?;
                let (index, deep) = self.counted(term)?;
                self.made(Expr::Element(param, Box::new(index)), deep + 1)?
            }
            Some(Pending::Listed(make, begins)) => self.listed(so_far, make, begins)?,
            _ => return Ok(()),
        };
        so_far.terms.push(term);
        Ok(())
    }

    /// A list of the conditions from there on.
    fn listed(
        &mut self,
        so_far: &mut Sentence,
        make: fn(Vec<Condition>) -> Condition,
        begins: usize,
    ) -> Read<Term> {
        let mut deepest = 0;
        let mut list = Vec::with_capacity(so_far.terms.len() - begins);
        for term in so_far.terms.drain(begins..) {
            let (condition, deep) = self.truth(term)?;
            list.push(condition);
            deepest = deepest.max(deep);
        }
        self.held(make(list), deepest + 1)
    }

    fn signed(&mut self, sign: Pending, term: Term) -> Read<Term> {
        if let Pending::Not = sign {
            let (condition, deep) = self.truth(term)?;
            return self.held(Condition::Not(Box::new(condition)), 1 + deep);
        }
        let (number, deep) = self.counted(term)?;
        self.made(Expr::Sub(Box::new(Expr::Int(0)), Box::new(number)), 1 + deep)
    }

    /// The last term; there always is one where this is called.
    fn popped(&self, so_far: &mut Sentence) -> Read<Term> {
        match so_far.terms.pop() {
            Some(term) => Ok(term),
            None => self.fault("a number or a condition expected"),
        }
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
