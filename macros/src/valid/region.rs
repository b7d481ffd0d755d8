//! Parts of memory.

use proc_macro2::Ident;
use typed_nccl_plan::ir::{BufferId, Expr, Operator, Region};

use super::scope::{Meaning, Want};
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{self, ExprKind};
use crate::fault::Fault;

impl Resolver<'_> {
    pub(super) fn region(&mut self, expr: &ast::Expr) -> Looked<Region> {
        match &expr.kind {
            ExprKind::Name(name) => match self.look(name, Want::Memory)? {
                Meaning::Buffer(buffer) => Ok(Region::all(buffer)),
                Meaning::Region(region, ends_alike) => {
                    self.own_end |= !ends_alike;
                    Ok(*region)
                }
                _ => Err(Reported),
            },
            ExprKind::Field(base, field) => {
                let mut region = self.region(base)?;
                if field != "next" {
                    let fault = Fault::new(field.span(), format!("memory has no `{field}`"));
                    return self.tell(fault.help(
                        "`u.next` is the other copy of `swapped` memory, `u.chunk(parts, index)` one of \
                         equal parts",
                    ));
                }
                region.next = true;
                Ok(region)
            }
            ExprKind::Index(base, index) => {
                let (region, index) = (self.region(base), self.number(index));
                self.index(region?, index?, expr.area)
            }
            ExprKind::Slice(base, from, to) => {
                let region = self.region(base);
                let from = from.as_ref().map(|from| self.number(from));
                let to = to.as_ref().map(|to| self.number(to));
                let (mut region, from, to) = (region?, from.transpose()?, to.transpose()?);
                self.single(&region, base)?;
                match to {
                    None => self.end_is_known(&region, base, expr.area)?,
                    Some(_) => self.own_end = false,
                }
                self.slice(&mut region, from, to);
                Ok(region)
            }
            ExprKind::Method(base, method, arguments) => {
                let region = self.region(base);
                let numbers: Vec<_> = arguments.iter().map(|one| self.number(one)).collect();
                let numbers: Looked<Vec<Expr>> = numbers.into_iter().collect();
                self.chunk(region?, numbers?, base, method, expr.area)
            }
            _ => self.tell(
                Fault::new(expr.area, "expected memory")
                    .help("memory is `x`, `x[a..b]`, `g[i]`, `x.next` or `x.chunk(parts, index)`"),
            ),
        }
    }

    /// Memory of another rank, with this rank's numbers.
    pub(super) fn region_elsewhere(&mut self, expr: &ast::Expr) -> Looked<Region> {
        self.elsewhere = true;
        let region = self.region_and_end(expr);
        self.elsewhere = false;
        let (region, ends_alike) = region?;
        if ends_alike {
            return Ok(region);
        }
        let name = expr.root().map(ToString::to_string).unwrap_or_default();
        let of = &self.buffer(region.buffer).name;
        let title = format!("`{name}` ends where `{of}` ends, which is elsewhere on another rank");
        let help = format!("write both ends: `{of}[a..b]`");
        self.tell(Fault::new(expr.area, title).help(help))
    }

    /// Memory, and whether numbers that are written say where it ends, not a length that differs
    /// from rank to rank.
    pub(super) fn region_and_end(&mut self, expr: &ast::Expr) -> Looked<(Region, bool)> {
        self.own_end = false;
        let region = self.region(expr)?;
        Ok((region, !self.own_end))
    }

    /// Checks that the end of a region that is not written is known here.
    fn end_is_known(&mut self, region: &Region, base: &ast::Expr, area: Area) -> Looked<()> {
        if region.range.is_some() || !self.len(region).mentions_rank() {
            return Ok(());
        }
        if !self.elsewhere {
            self.own_end = true;
            return Ok(());
        }
        let name = base.root().map(ToString::to_string).unwrap_or_default();
        let title = format!("`{name}` of another rank has another length");
        let fault = Fault::new(area, title);
        self.tell(fault.help(format!("write both ends, `{name}[a..b]`, or all of it, `{name}`")))
    }

    fn index(&mut self, mut region: Region, index: Expr, area: Area) -> Looked<Region> {
        let array = &self.valid.plan.buffers[region.buffer.index()].array;
        if array.is_some() && region.index.is_none() {
            region.index = Some(index);
            return Ok(region);
        }
        // A buffer that was meant to be an array is reported once.
        if array.is_none() && !self.indexed.insert(region.buffer) {
            return Err(Reported);
        }
        let title = "an index names one buffer of an array, and this is one buffer";
        let help = "for one of its elements write a range: `[i..i + 1]`";
        let name = &self.valid.plan.buffers[region.buffer.index()].name;
        let declare = format!("{help}, or declare an array: `{name}[i in 0..k]`");
        let help = if array.is_none() { &declare } else { help };
        self.tell(Fault::new(area, title).help(help))
    }

    /// Checks that this is one buffer, or part of one.
    fn single(&mut self, region: &Region, base: &ast::Expr) -> Looked<()> {
        let buffer = &self.valid.plan.buffers[region.buffer.index()];
        if buffer.array.is_none() || region.index.is_some() {
            return Ok(());
        }
        let name = base.root().map(ToString::to_string).unwrap_or_default();
        let fault = Fault::new(base.area, format!("`{name}` is an array of buffers"));
        self.tell(fault.help(format!("say which of them first: `{name}[0][a..b]`")))
    }

    fn slice(&self, region: &mut Region, from: Option<Expr>, to: Option<Expr>) {
        let inside = region.range.take();
        let end = match to {
            None => match &inside {
                Some((_, end)) => end.clone(),
                None => self.len(region),
            },
            Some(to) => moved(inside.as_ref(), to),
        };
        let start = moved(inside.as_ref(), from.unwrap_or(Expr::Int(0)));
        region.range = Some((start, end));
    }

    fn chunk(
        &mut self,
        mut region: Region,
        numbers: Vec<Expr>,
        base: &ast::Expr,
        method: &Ident,
        area: Area,
    ) -> Looked<Region> {
        if method != "chunk" {
            let fault = Fault::new(method.span(), format!("memory has no `{method}`"));
            return self.tell(fault.help("`x.chunk(parts, index)` is one of equal parts"));
        }
        let Ok([parts, index]) = <[Expr; 2]>::try_from(numbers) else {
            let fault = Fault::new(area, "`chunk` takes two numbers");
            return self
                .tell(fault.help("into how many parts, and which of them: `x.chunk(n, rank)`"));
        };
        self.single(&region, base)?;
        self.end_is_known(&region, base, area)?;
        self.divide(&mut region, parts, index);
        Ok(region)
    }

    /// Narrows a region to one of this many equal parts.
    pub(super) fn divide(&self, region: &mut Region, parts: Expr, index: Expr) {
        let len = match &region.range {
            Some((start, end)) => Operator::Sub.fold(end.clone(), start.clone()),
            None => self.len(region),
        };
        let each = Operator::Div.fold(len, parts);
        let after = Operator::Add.fold(index.clone(), Expr::Int(1));
        let from = Operator::Mul.fold(index, each.clone());
        let to = Operator::Mul.fold(after, each);
        self.slice(region, Some(from), Some(to));
    }

    /// The length of the buffer that contains a region.
    fn len(&self, region: &Region) -> Expr {
        let buffer = &self.valid.plan.buffers[region.buffer.index()];
        match (&buffer.array, &region.index) {
            (Some(array), Some(index)) => buffer.len.replace(array.index, index),
            _ => buffer.len.clone(),
        }
    }

    pub(super) fn buffer(&self, buffer: BufferId) -> &typed_nccl_plan::ir::Buffer {
        &self.valid.plan.buffers[buffer.index()]
    }
}

fn moved(inside: Option<&(Expr, Expr)>, by: Expr) -> Expr {
    match inside {
        None | Some((Expr::Int(0), _)) => by,
        Some((start, _)) if by == Expr::Int(0) => start.clone(),
        Some((start, _)) => Operator::Add.fold(start.clone(), by),
    }
}
