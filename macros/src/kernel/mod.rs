//! `kernel!`: a function's head, a body for GPUs, a body for the host.

mod expand;
mod parse;
mod ty;
pub(crate) mod words;

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::quote;

/// A parsed kernel.
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

/// `T: Float`, and further bounds of the Rust body: `T: Float + std::ops::AddAssign`.
struct TypeParam {
    name: Ident,
    bound: Ident,
    more: TokenStream,
}

struct Argument {
    name: Ident,
    ty: Type,
}

/// The type of an argument, with the tokens of its element type.
enum Type {
    Scalar(TokenStream),
    Read(TokenStream),
    Write(TokenStream),
    DevComm,
    /// Invalid, and reported.
    Unknown,
    Window(TokenStream, Reach),
    Barrier,
}

/// How a kernel accesses a window.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    Whole,
    Written,
    Part,
}

/// `unsafe cuda r#".."#`, `unsafe cuda file ".."`, `unsafe ptx ..`
struct Source {
    is_ptx: bool,
    is_file: bool,
    /// The span of the word `unsafe`.
    word: Span,
    /// An expression: the text, or the name of its file.
    text: TokenStream,
    line: usize,
}

/// The errors of the declared kernel.
#[cfg(test)]
pub(crate) fn faults(tokens: TokenStream) -> Vec<crate::fault::Fault> {
    let mut faults = Vec::new();
    let _ = parse::kernel(tokens, &mut faults);
    faults.sort_by_key(|fault| fault.area.start());
    faults
}

/// The function of the declared kernel, and its errors. The first token is a group with the path of
/// the crate.
pub(crate) fn kernel(tokens: TokenStream) -> TokenStream {
    let (krate, tokens) = crate::expand::with_path(tokens);
    let mut faults = Vec::new();
    let mut kernel = parse::kernel(tokens, &mut faults);
    if let Some(kernel) = kernel.as_mut().filter(|_| !faults.is_empty()) {
        // Errors in the head would be reported again for the bodies.
        (kernel.cuda, kernel.host, kernel.launch.blocks) = (None, None, None);
    }
    faults.sort_by_key(|fault| fault.area.start());
    let told: TokenStream = faults.iter().map(crate::fault::Fault::tokens).collect();
    // Generate the function even after an error, so that its calls do not cause further ones.
    let function = kernel.map(|mut kernel| {
        let arguments = kernel.arguments.into_iter();
        let with_path = |it: Argument| Argument { ty: it.ty.with_path(&krate), ..it };
        kernel.arguments = arguments.map(with_path).collect();
        expand::expand(&krate, &kernel)
    });
    quote!(#told #function)
}
