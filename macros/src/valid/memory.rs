//! Memory and its elements.

use proc_macro2::{Ident, TokenStream};
use typed_nccl_plan::ir::{Array, Buffer, BufferId, ElementType, Expr, LoopId, Named};

use super::scope::{Meaning, last};
use super::{Looked, Resolver};
use crate::area::Area;
use crate::ast::{self, text};
use crate::fault::Fault;
use crate::nearest::nearest;

/// A buffer's name as it is written, and its documentation.
pub(crate) struct Declared {
    pub(crate) name: Ident,
    pub(crate) docs: TokenStream,
}

const TYPES: [(&str, ElementType); 12] = [
    ("i8", ElementType::I8),
    ("u8", ElementType::U8),
    ("i32", ElementType::I32),
    ("u32", ElementType::U32),
    ("i64", ElementType::I64),
    ("u64", ElementType::U64),
    ("f16", ElementType::F16),
    ("bf16", ElementType::Bf16),
    ("f32", ElementType::F32),
    ("f64", ElementType::F64),
    ("F8E4M3", ElementType::F8E4M3),
    ("F8E5M2", ElementType::F8E5M2),
];

impl Resolver<'_> {
    pub(super) fn memory(&mut self, memory: &ast::Memory, docs: &TokenStream) {
        let element = self.element(&memory.element);
        for name in &memory.names {
            let declared = self.one(memory, name, &element, docs);
            if declared.is_err() {
                self.declare(&name.name, Meaning::Broken);
            }
        }
    }

    fn one(
        &mut self,
        memory: &ast::Memory,
        name: &ast::MemoryName,
        element: &Looked<ElementType>,
        docs: &TokenStream,
    ) -> Looked<()> {
        let at = self.at(name.name.span());
        let depth = self.scope.depth();
        let array = match &name.array {
            Some((index, count)) => {
                let count = self.number(count);
                let counter = self.counter(index);
                count.map(|count| Some(Array { count, index: counter }))
            }
            None => Ok(None),
        };
        let len = self.number(&memory.len);
        self.scope.leave(depth);
        // Even where its length is not known, its type is: the module has it.
        let element = element.clone()?;
        self.valid.plan.buffers.push(Buffer {
            name: text(&name.name),
            element,
            len: len.unwrap_or(Expr::Int(1)),
            array: array.unwrap_or(None),
            role: memory.role,
            window: memory.window,
            copies: if memory.swapped { 2 } else { 1 },
            at,
        });
        self.valid.memory.push(Declared { name: name.name.clone(), docs: docs.clone() });
        let id = BufferId(last(&self.valid.plan.buffers));
        self.declare(&name.name, Meaning::Buffer(id));
        Ok(())
    }

    /// A counter, which may be used until its block is left.
    pub(super) fn counter(&mut self, name: &Ident) -> LoopId {
        let at = self.at(name.span());
        self.valid.plan.counters.push(Named { name: text(name), at });
        let id = LoopId(last(&self.valid.plan.counters));
        self.declare_here(name, Meaning::Counter(id));
        id
    }

    fn element(&mut self, name: &Ident) -> Looked<ElementType> {
        let called = text(name);
        if self.types.contains_key(&called) {
            return Ok(ElementType::Generic(called));
        }
        if let Some((_, element)) = TYPES.iter().find(|(known, _)| *known == called) {
            return Ok(element.clone());
        }
        let fault = Fault::new(name.span(), format!("`{called}` is no type of elements"));
        let params = self.types.keys().map(|name| &**name);
        let near = nearest(&called, params.chain(TYPES.iter().map(|(name, _)| *name)));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if called.len() == 1 => {
                format!("declare it: `{}<{called}: Element>(..)`", self.valid.plan.name)
            }
            None => {
                let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
                format!("these are: {}, and the plan's type parameters", names.join(", "))
            }
        };
        self.tell(fault.help(help))
    }

    /// That elements of that type can be reduced so.
    pub(super) fn reduces(&mut self, element: &ElementType, average: bool, by: Area) -> Looked<()> {
        let name = element.to_string();
        let (bound, float) = match element {
            ElementType::Generic(name) => {
                let bound = self.types.get(name).map_or("Element", |bound| &**bound);
                (bound == "Element", bound == "Float")
            }
            ElementType::I8
            | ElementType::U8
            | ElementType::I32
            | ElementType::U32
            | ElementType::I64
            | ElementType::U64 => (false, false),
            _ => (false, true),
        };
        let generic = matches!(element, ElementType::Generic(_));
        if average && !float {
            let fault = Fault::new(
                by,
                format!(
                    "`avg` reduces floating-point numbers, and `{name}` is not bound to be one"
                ),
            );
            let fault = if generic {
                fault.help(format!("declare `{name}: Float`"))
            } else {
                Fault::new(
                    by,
                    format!("`avg` reduces floating-point numbers, and these are `{name}`"),
                )
                .help("reduce by `sum`, and divide where you read the result")
            };
            return self.tell(fault);
        }
        if bound {
            let fault =
                Fault::new(by, format!("a reduction needs numbers, and `{name}` is any element"));
            return self.tell(fault.help(format!("declare `{name}: Numeric`")));
        }
        Ok(())
    }
}
