//! Lists of constants, and loops over them.

use std::rc::Rc;

use proc_macro2::Ident;
use typed_nccl_plan::ir::Expr;

use super::scope::{Meaning, Want};
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{Listed, Row, text};
use crate::fault::Fault;

/// The numbers of a list, row by row.
pub(super) type Rows = Rc<Vec<Vec<Expr>>>;

impl Resolver<'_> {
    /// `const edges = [(0, 1), (1, 3)];`
    pub(super) fn constant(&mut self, name: &Ident, rows: &[Row]) -> Looked<()> {
        let resolved = self.same_everywhere(rows);
        let done = resolved.as_ref().map(drop).map_err(|_| Reported);
        self.declare_here(name, resolved.map_or(Meaning::Broken, Meaning::Constants));
        done
    }

    fn same_everywhere(&mut self, rows: &[Row]) -> Looked<Rows> {
        let resolved = self.rows(rows)?;
        for (row, numbers) in rows.iter().zip(&*resolved) {
            if numbers.iter().any(Expr::mentions_rank) {
                let fault = Fault::new(row.area, "a constant is the same on every rank");
                let help =
                    "name what depends on the rank with `let`, or write the list into the loop";
                return self.tell(fault.help(help));
            }
        }
        Ok(resolved)
    }

    fn rows(&mut self, rows: &[Row]) -> Looked<Rows> {
        let mut resolved: Vec<Vec<Expr>> = Vec::with_capacity(rows.len());
        for row in rows {
            let numbers: Vec<_> = row.numbers.iter().map(|one| self.number(one)).collect();
            let numbers: Vec<Expr> = numbers.into_iter().collect::<Looked<_>>()?;
            if let Some(first) = resolved.first()
                && first.len() != numbers.len()
            {
                let (first, this) = (several(first.len()), several(numbers.len()));
                let title = format!("the first row of this list has {first}, and this has {this}");
                return self.tell(Fault::new(row.area, title).help("give each row as many"));
            }
            resolved.push(numbers);
        }
        Ok(Rc::new(resolved))
    }

    /// What a loop with these names goes through.
    pub(super) fn each_row(&mut self, names: &[Ident], listed: &Listed) -> Looked<Rows> {
        let (rows, area, called) = match listed {
            Listed::Rows(rows) => {
                let Some(last) = rows.last() else { return Ok(Rc::default()) };
                let area = rows.first().map_or(last.area, |first| first.area.to(last.area));
                (self.rows(rows)?, area, None)
            }
            Listed::Named(name) => match self.look(name, Want::Any)? {
                Meaning::Constants(rows) => (rows, name.span().into(), Some(text(name))),
                meaning => {
                    let name_of = text(name);
                    let title =
                        format!("`{name_of}` is {}, and a loop goes through", meaning.what());
                    let fault = Fault::new(name.span(), format!("{title} a range or a list"));
                    return self.tell(fault.help(match meaning {
                        Meaning::List(_) => {
                            format!("count, and name its elements: `{name_of}[i]`")
                        }
                        Meaning::Axis(_)
                        | Meaning::Param(_)
                        | Meaning::Counter(_)
                        | Meaning::Number(_) => {
                            format!("write `0..{name_of}` to count to it")
                        }
                        _ => "a list is `[0, 2, 1]`, or a `const`".to_owned(),
                    }));
                }
            },
        };
        match rows.first() {
            Some(first) if first.len() != names.len() => {
                let (row, loops) = (several(first.len()), names.len());
                let called =
                    called.map_or_else(|| "this list".to_owned(), |name| format!("`{name}`"));
                let title = format!("each row of {called} has {row}, and the loop names {loops}");
                let letters = ["a", "b", "c", "d", "e", "f"];
                let as_many: Vec<_> = letters.into_iter().take(first.len()).collect();
                let help = match first.len() {
                    1 => "name one: `for a in ..`".to_owned(),
                    n if n <= letters.len() => {
                        format!("name each: `for ({}) in ..`", as_many.join(", "))
                    }
                    n => format!("name all {n} in parentheses"),
                };
                self.tell(Fault::new(area, title).help(help))
            }
            _ => Ok(rows),
        }
    }

    /// Does this in each turn of a loop with these names.
    pub(super) fn for_rows(
        &mut self,
        names: &[Ident],
        listed: &Listed,
        mut inner: impl FnMut(&mut Self) -> Looked<()>,
    ) -> Looked<()> {
        self.each_row(names, listed)?.iter().try_for_each(|row| {
            let depth = self.scope.depth();
            self.take_row(names, row);
            let done = inner(self);
            self.scope.leave(depth);
            done
        })
    }

    /// Gives the names of a loop their numbers in this turn.
    pub(super) fn take_row(&mut self, names: &[Ident], row: &[Expr]) {
        for (name, number) in names.iter().zip(row) {
            self.declare_here(name, Meaning::Number(number.clone()));
        }
    }

    /// `order[i]`
    pub(super) fn pick(
        &mut self,
        list: &Ident,
        rows: &Rows,
        index: Expr,
        area: Area,
    ) -> Looked<Expr> {
        let name = text(list);
        if rows.first().is_some_and(|row| row.len() != 1) {
            let title = format!("each row of `{name}` has {}", several(rows[0].len()));
            let help = format!("go through its rows: `for (a, b) in {name} {{ .. }}`");
            return self.tell(Fault::new(area, title).help(help));
        }
        let numbers: Vec<&Expr> = rows.iter().flatten().collect();
        if let Expr::Int(at) = index {
            let number = usize::try_from(at).ok().and_then(|at| numbers.get(at));
            return number.map(|one| (*one).clone()).map_or_else(
                || {
                    let (count, last) = (several(numbers.len()), numbers.len().saturating_sub(1));
                    let title = format!("`{name}` has {count}, and no element {at}");
                    self.tell(
                        Fault::new(area, title)
                            .help(format!("they are `{name}[0]` to `{name}[{last}]`")),
                    )
                },
                Ok,
            );
        }
        let numbers: Vec<Expr> = numbers.into_iter().cloned().collect();
        Ok(Expr::pick(&numbers, &index))
    }
}

fn several(count: usize) -> String {
    match count {
        1 => "one number".to_owned(),
        count => format!("{count} numbers"),
    }
}
