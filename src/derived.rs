//! `Clone`, `Copy` and `Debug` with the bounds that are named: `derive` would put one on every type
//! parameter.

/// Makes a type `Clone` and `Copy`.
macro_rules! copy {
    ([$($params:tt)*] $type:ty) => {
        impl<$($params)*> Clone for $type {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($params)*> Copy for $type {}
    };
}

/// Makes a type `Debug`, by a format and its arguments.
macro_rules! debug {
    ([$($params:tt)*] $type:ty, $self:ident => $($format:tt)+) => {
        impl<$($params)*> std::fmt::Debug for $type {
            fn fmt(&$self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, $($format)+)
            }
        }
    };
}

pub(crate) use {copy, debug};
