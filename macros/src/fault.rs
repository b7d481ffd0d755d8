//! Errors in a plan, as the user reads them.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, TokenStream, TokenTree};
use quote::quote;

use crate::area::Area;

/// One error, and its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) area: Area,
    pub(crate) message: String,
}

/// The result of a function whose failure was already reported.
pub(crate) type Parsed<T> = Result<T, Fault>;

impl Fault {
    pub(crate) fn new(area: impl Into<Area>, title: impl Into<String>) -> Self {
        Self { area: area.into(), message: title.into() }
    }

    /// Adds a remedy.
    pub(crate) fn help(mut self, help: impl AsRef<str>) -> Self {
        self.message.push_str("\nhelp: ");
        self.message.push_str(help.as_ref());
        self
    }

    /// Adds a remedy, if one is known.
    pub(crate) fn maybe_help(self, help: Option<String>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Whether both say the same about the same place.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.area.start() == other.area.start() && self.message == other.message
    }

    /// A warning for the compiler: the use of something deprecated is one that a macro can cause.
    pub(crate) fn warning(&self) -> TokenStream {
        let doubtful = Ident::new("DOUBTFUL", self.area.first);
        let message = Literal::string(&self.message);
        quote! {
            const _: () = {
                #[deprecated(note = #message)]
                const DOUBTFUL: () = ();
                #doubtful
            };
        }
    }

    /// The error for the compiler. Its first token has the span of the area's first one and its
    /// last that of the last, and the compiler joins them.
    pub(crate) fn tokens(&self) -> TokenStream {
        let Area { first, last } = self.area;
        let punct = |char, spacing| {
            let mut punct = Punct::new(char, spacing);
            punct.set_span(first);
            TokenTree::Punct(punct)
        };
        // Tokens that the user could have written; for others the compiler would say that a macro
        // generated them.
        let word = |name| TokenTree::Ident(Ident::new(name, first));
        let mut message = Literal::string(&self.message);
        message.set_span(last);
        let mut body = Group::new(Delimiter::Brace, TokenTree::Literal(message).into());
        body.set_span(last);
        TokenStream::from_iter([
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            word("core"),
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            word("compile_error"),
            punct('!', Spacing::Alone),
            TokenTree::Group(body),
        ])
    }
}
