//! Memory and its elements.

use proc_macro2::{Ident, TokenStream};
use typed_nccl_plan::ir::{Array, Buffer, BufferId, ElementType, Expr, LoopId, Named};

use super::scope::{Meaning, last};
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{self, text};
use crate::fault::Fault;
use crate::kernel::words;
use crate::nearest::nearest;

/// A buffer's name as written, and its documentation.
pub(crate) struct Declared {
    pub(crate) name: Ident,
    pub(crate) docs: TokenStream,
}

impl Resolver<'_> {
    /// Declares memory. Unknown parts are filled in, since the name is known.
    pub(super) fn memory(&mut self, memory: &ast::Memory, docs: &TokenStream) {
        let element = memory.element.as_ref().map(|element| self.element(element));
        let element = match element {
            Some(Ok(element)) => element,
            _ => self.some_element(),
        };
        self.nameless |= memory.nameless;
        for ast::MemoryName { name, array } in &memory.names {
            let at = self.at(name.span());
            let depth = self.scope.depth();
            let array = array.as_ref().map(|(index, count)| {
                // Arrays are as long on all ranks, and so are windows.
                self.scope.same = true;
                let count = self.number(count).unwrap_or(Expr::Int(1));
                Array { count, index: self.counter(index) }
            });
            self.scope.same = memory.window;
            let len = memory.len.as_ref().map(|len| self.number(len));
            self.scope.same = false;
            self.scope.leave(depth);
            self.valid.plan.buffers.push(Buffer {
                name: text(name),
                element: element.clone(),
                len: len.and_then(Result::ok).unwrap_or(Expr::Int(1)),
                array,
                role: memory.role,
                window: memory.window,
                copies: if memory.swapped { 2 } else { 1 },
                at,
            });
            self.valid.memory.push(Declared { name: name.clone(), docs: docs.clone() });
            let id = BufferId(last(&self.valid.plan.buffers));
            self.declare(name, Meaning::Buffer(id));
        }
    }

    /// A placeholder for an unknown element type.
    pub(super) fn some_element(&self) -> ElementType {
        match &*self.types {
            [(only, _)] => ElementType::Generic(only.clone()),
            _ => ElementType::F32,
        }
    }

    /// The bound of a type parameter; an unknown bound may be anything.
    fn bound(&self, name: &str) -> Option<&str> {
        let (_, bound) = self.types.iter().find(|(known, _)| known == name)?;
        Some(bound.as_deref().unwrap_or("Float"))
    }

    /// A counter, in scope until its block ends.
    pub(super) fn counter(&mut self, name: &Ident) -> LoopId {
        let at = self.at(name.span());
        self.valid.plan.counters.push(Named { name: text(name), at });
        let id = LoopId(last(&self.valid.plan.counters));
        self.declare_here(name, Meaning::Counter(id));
        id
    }

    fn element(&mut self, name: &Ident) -> Looked<ElementType> {
        let called = text(name);
        if self.bound(&called).is_some() {
            return Ok(ElementType::Generic(called));
        }
        let mut named = ElementType::NAMED.into_iter();
        if let Some((_, element)) = named.find(|(known, _)| *known == called) {
            return Ok(element);
        }
        if self.nameless || self.lost.contains(&called) {
            return Err(Reported);
        }
        let fault = Fault::new(name.span(), format!("`{called}` is not an element type"));
        let known: Vec<&str> = words::elements().collect();
        let params = self.types.iter().map(|(name, _)| &**name);
        let near = nearest(&called, params.chain(known.iter().copied()));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if called.len() == 1 => {
                format!("declare it: `{}<{called}: Element>(..)`", self.valid.plan.name)
            }
            None => {
                format!("these are: {}, and the plan's type parameters", known.join(", "))
            }
        };
        self.tell(fault.help(help))
    }

    /// Checks that elements of that type support the reduction.
    pub(super) fn reduces(&mut self, element: &ElementType, average: bool, by: Area) -> Looked<()> {
        let name = element.to_string();
        let (bound, float) = match element {
            ElementType::Generic(name) => {
                let bound = self.bound(name).unwrap_or("Element");
                (bound == "Element", bound == "Float")
            }
            element => (!element.reduces(), element.averages()),
        };
        let is_generic = matches!(element, ElementType::Generic(_));
        let (title, help) = match (average && !float, is_generic) {
            (true, true) => (
                format!(
                    "`avg` reduces floating-point numbers, and `{name}` is not bound to be one"
                ),
                format!("declare `{name}: Float`"),
            ),
            (true, false) => (
                format!("`avg` reduces floating-point numbers, and these are `{name}`"),
                "reduce by `sum`, and divide where you read the result".to_owned(),
            ),
            (false, _) if !bound => return Ok(()),
            (false, true) => (
                format!("a reduction needs numbers, and `{name}` is any element"),
                format!("declare `{name}: Numeric`"),
            ),
            (false, false) => (
                format!("a reduction needs numbers, and these are `{name}`"),
                "reduce them by `And` or `Or` outside of the plan, or in a step".to_owned(),
            ),
        };
        self.tell(Fault::new(by, title).help(help))
    }
}
