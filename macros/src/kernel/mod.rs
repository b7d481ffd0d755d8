//! `kernel!`: a function's head, a body for GPUs, a body for the host.

mod expand;
mod parse;
mod ty;
mod words;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;

/// What was understood of a kernel.
struct Kernel {
    attributes: TokenStream,
    launch: Launch,
    visibility: TokenStream,
    name: Ident,
    types: Vec<TypeParam>,
    arguments: Vec<Argument>,
    cuda: Option<Source>,
    host: Option<Group>,
}

/// `#[launch(threads = 256, blocks = x.len().div_ceil(256), needs = sm_90)]`
#[derive(Default)]
struct Launch {
    threads: Option<TokenStream>,
    blocks: Option<TokenStream>,
    needs: Option<u32>,
}

/// `T: Float`, and what the body in Rust needs of it: `T: Float + std::ops::AddAssign`.
struct TypeParam {
    name: Ident,
    bound: Ident,
    more: TokenStream,
}

struct Argument {
    name: Ident,
    ty: Type,
}

/// What an argument is, with the tokens of its element type.
enum Type {
    Scalar(TokenStream),
    Read(TokenStream),
    Write(TokenStream),
    DevComm,
    /// What is wrong with it is told.
    Unknown,
    Window(TokenStream, Reach),
    Barrier,
}

/// What a kernel takes of a window.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    Whole,
    Written,
    Part,
}

/// `unsafe cuda r#".."#`, `unsafe cuda file ".."`, `unsafe ptx ..`
struct Source {
    kind: SourceKind,
    /// Of the word `unsafe`.
    word: Span,
    /// An expression: the text, or the name of its file.
    text: TokenStream,
    line: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum SourceKind {
    Body,
    File,
    Ptx,
    PtxFile,
}

/// What is wrong with the kernel that the tokens declare.
#[cfg(test)]
pub(crate) fn faults(tokens: TokenStream) -> Vec<crate::fault::Fault> {
    let mut faults = Vec::new();
    let _ = parse::kernel(tokens, &mut faults);
    faults.sort_by_key(|fault| fault.area.start());
    faults
}

/// The function of the kernel that the tokens declare, and what is wrong with it. The first token is a group
/// with the path of the crate.
pub(crate) fn kernel(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter();
    let krate = match tokens.next() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            group.stream()
        }
        _ => quote!(::typed_nccl),
    };
    let mut faults = Vec::new();
    let mut kernel = parse::kernel(tokens.collect(), &mut faults);
    if let Some(kernel) = kernel.as_mut().filter(|_| !faults.is_empty()) {
        // What is wrong in the head would be told again of the bodies.
        (kernel.cuda, kernel.host, kernel.launch.blocks) = (None, None, None);
    }
    faults.sort_by_key(|fault| fault.area.start());
    let told: TokenStream = faults.iter().map(crate::fault::Fault::tokens).collect();
    // After a mistake the function is there all the same, so that no second error follows where it is called.
    let function = kernel.map(|kernel| expand::expand(&krate, &kernel));
    quote!(#told #function)
}
