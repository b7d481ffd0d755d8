//! The numbers of ranks that a plan accepts, as a `const fn`: a program with a constant number of
//! ranks can check it at compile time.

use proc_macro2::{Literal, TokenStream};
use quote::quote;
use typed_nccl_plan::ir::{AxisId, Comparison, Condition, Expr, Plan, Values};

use super::types::ident;

/// The function, for a plan with one axis.
pub(super) fn claims(plan: &Plan) -> TokenStream {
    let [axis] = &plan.axes[..] else { return TokenStream::new() };
    let values = values(&axis.extent);
    // Loops are left to `bind`.
    let promises = plan.promises.iter().filter(|promise| promise.around.is_empty());
    let promises: Vec<TokenStream> =
        promises.filter_map(|promise| condition(&promise.condition)).collect();
    let name = &axis.name;
    let docs = format!(
        "Whether the plan is for `{name}` ranks, as far as that depends on nothing else. What depends on \
         parameters, `bind` asks."
    );
    quote! {
        #[doc = #docs]
        ///
        /// Whether the plan accepts this number of ranks. If the number is a constant, check it at
        /// compile time: `const { assert!(claims(RANKS)) }`.
        #[allow(clippy::all)]
        pub const fn claims(ranks: usize) -> bool {
            let n = ranks as i128;
            n >= 1 && (#values) #(&& (#promises))*
        }
    }
}

fn number(value: i64) -> TokenStream {
    let value = Literal::i128_suffixed(value.into());
    quote!((#value))
}

fn values(values: &Values) -> TokenStream {
    match values {
        Values::Exactly(only) => {
            let only = number(*only);
            quote!(n == #only)
        }
        Values::OneOf(list) => {
            let list = list.iter().map(|value| number(*value));
            quote!(#(n == #list)||*)
        }
        Values::Range(first, last) => {
            let (first, last) = (number(*first), number(*last));
            quote!(n >= #first && n <= #last)
        }
        Values::AtLeast(first) => {
            let first = number(*first);
            quote!(n >= #first)
        }
        Values::Powers(of) => {
            let of = number(*of);
            quote!({
                let mut left = n;
                while left % #of == 0 {
                    left /= #of;
                }
                left == 1
            })
        }
    }
}

/// A condition that only involves the number of ranks.
fn condition(this: &Condition) -> Option<TokenStream> {
    let all = |list: &[Condition]| list.iter().map(condition).collect::<Option<Vec<_>>>();
    Some(match this {
        Condition::Compare(a, comparison, b) => {
            let (a, b) = (expr(a)?, expr(b)?);
            match comparison {
                Comparison::Equal => quote!(#a == #b),
                Comparison::NotEqual => quote!(#a != #b),
                Comparison::Less => quote!(#a < #b),
                Comparison::LessOrEqual => quote!(#a <= #b),
                Comparison::Greater => quote!(#a > #b),
                Comparison::GreaterOrEqual => quote!(#a >= #b),
            }
        }
        Condition::All(list) => {
            let list = all(list)?;
            quote!(true #(&& (#list))*)
        }
        Condition::Any(list) => {
            let list = all(list)?;
            quote!(false #(|| (#list))*)
        }
        Condition::Not(one) => {
            let one = condition(one)?;
            quote!(!(#one))
        }
    })
}

/// An expression of the number of ranks that fits in 128 bits: factors are small; otherwise `bind`
/// checks it.
fn expr(this: &Expr) -> Option<TokenStream> {
    Some(match this {
        Expr::Int(value) => number(*value),
        Expr::Size | Expr::Extent(AxisId(0)) => quote!(n),
        Expr::Add(a, b) => {
            let (a, b) = (expr(a)?, expr(b)?);
            quote!((#a + #b))
        }
        Expr::Sub(a, b) => {
            let (a, b) = (expr(a)?, expr(b)?);
            quote!((#a - #b))
        }
        // Only one factor may be large.
        Expr::Mul(a, b) => match (&**a, &**b) {
            (Expr::Int(factor), other) | (other, Expr::Int(factor)) if !is_product(other) => {
                let (factor, other) = (number(*factor), expr(other)?);
                quote!((#factor * #other))
            }
            _ => return None,
        },
        Expr::Xor(a, b) => {
            let (a, b) = (expr(a)?, expr(b)?);
            quote!((#a ^ #b))
        }
        Expr::Div(a, b) | Expr::Rem(a, b) => match &**b {
            Expr::Int(by) if *by > 0 => {
                let is_div = matches!(this, Expr::Div(..));
                let method = ident(if is_div { "div_euclid" } else { "rem_euclid" });
                let (a, by) = (expr(a)?, number(*by));
                quote!((#a.#method(#by)))
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn is_product(this: &Expr) -> bool {
    this.any(|part| matches!(part, Expr::Mul(..)))
}
