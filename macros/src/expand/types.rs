//! Rust types of a plan's memory, and the type parameters of its items.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use typed_nccl_plan::ir::{Buffer, ElementType, Role};

use super::buffers;
use crate::ast::{self, text};
use crate::kernel::words;
use crate::valid::Valid;

/// The names that the module's items use.
pub(super) struct Types<'a> {
    pub(super) krate: &'a TokenStream,
    pub(super) plan: &'a Ident,
    /// The plan's type parameters with their bounds.
    pub(super) params: Vec<(Ident, TokenStream)>,
    /// The parameters that occur in the caller's windows.
    given: Vec<bool>,
    /// Whether the caller passes any memory.
    pub(super) any_given: bool,
    /// Whether there is a window among it.
    pub(super) any_window: bool,
}

impl<'a> Types<'a> {
    pub(super) fn new(krate: &'a TokenStream, plan: &'a ast::Plan, valid: &Valid) -> Self {
        let given = || valid.plan.buffers.iter().filter(|buffer| buffer.role != Role::Local);
        let windows = given().filter(|buffer| buffer.window);
        let elements: Vec<&ElementType> = windows.map(|buffer| &buffer.element).collect();
        let bound = |bound: Option<&Ident>| match bound.map(ToString::to_string).as_deref() {
            Some("Numeric") => quote!(#krate::Numeric),
            Some("Float") => quote!(#krate::Float),
            _ => quote!(#krate::Element),
        };
        let is_given = |name: &Ident| {
            let name = text(name);
            elements.iter().any(|one| matches!(one, ElementType::Generic(given) if *given == name))
        };
        Self {
            krate,
            plan: &plan.name,
            given: plan.types.iter().map(|param| is_given(&param.name)).collect(),
            params: plan
                .types
                .iter()
                .map(|param| (param.name.clone(), bound(param.bound.as_ref())))
                .collect(),
            any_given: given().next().is_some(),
            any_window: !elements.is_empty(),
        }
    }

    /// `T`, for each type parameter.
    pub(super) fn names(&self) -> Vec<&Ident> {
        self.params.iter().map(|(name, _)| name).collect()
    }

    /// `T: Float`, for each type parameter.
    pub(super) fn bounded(&self) -> Vec<TokenStream> {
        self.params.iter().map(|(name, bound)| quote!(#name: #bound)).collect()
    }

    /// The type parameters of the caller's windows.
    pub(super) fn given(&self) -> Vec<&Ident> {
        let given = self.params.iter().zip(&self.given).filter(|(_, given)| **given);
        given.map(|((name, _), _)| name).collect()
    }

    /// The type of elements, such as `T` or `f32`.
    pub(super) fn element(&self, element: &ElementType) -> TokenStream {
        match element {
            ElementType::Generic(name) => {
                let known = self.params.iter().find(|(known, _)| text(known) == *name);
                let called = known.map_or_else(|| ident(name), |(known, _)| known.clone());
                quote!(#called)
            }
            element => {
                let named = ElementType::NAMED.into_iter().find(|(_, known)| known == element);
                let name = named.map_or("", |(name, _)| name);
                words::element(self.krate, &ident(name)).unwrap_or_default()
            }
        }
    }

    /// The type of the caller's argument for a buffer. Windows have one type; for other memory it
    /// is `any`, a type parameter.
    pub(super) fn memory(&self, buffer: &Buffer, any: &Ident) -> TokenStream {
        let (krate, element) = (self.krate, self.element(&buffer.element));
        let mut memory = match buffer.window {
            true => quote!(#krate::Window<#element, W>),
            false => quote!(#any),
        };
        if buffer.copies == 2 {
            memory = quote!(#krate::plan::Swapped<#memory>);
        }
        if buffer.array.is_some() {
            memory = quote!([#memory]);
        }
        if buffers::is_read(buffer) { quote!(&'a #memory) } else { quote!(&'a mut #memory) }
    }

    /// What that type parameter is.
    pub(super) fn bound(&self, buffer: &Buffer) -> TokenStream {
        let (krate, element) = (self.krate, self.element(&buffer.element));
        match buffer {
            Buffer { copies: 2, .. } => quote!(#krate::plan::WholeOf<#element, W>),
            _ if buffers::is_read(buffer) => quote!(#krate::plan::InputOf<#element, W>),
            _ => quote!(#krate::plan::MemoryOf<#element, W>),
        }
    }
}

pub(super) fn ident(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}
