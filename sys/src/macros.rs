//! The three forms of a declaration: a C enum, a struct with a history, a function.

/// A C enum: an integer with names. Every value is valid.
macro_rules! c_enum {
    (
        $(#[$meta:meta])*
        pub struct $name:ident;
        $( since $since:literal { $( $(#[$vmeta:meta])* $value:ident = $number:expr; )* } )*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub ::std::ffi::c_int);

        impl $name {
            $( $(
                $(#[$vmeta])*
                #[doc = concat!("\n\nNCCL ", $since, " and newer.")]
                pub const $value: Self = Self($number);
            )* )*

            /// Every name with its value and the first release that has it; 2.18 stands for 2.18
            /// and anything before.
            pub const VALUES: &'static [(&'static str, Self, $crate::Version)] = &[
                $( $( (stringify!($value), Self($number), $crate::Version::parse($since)), )* )*
            ];

            /// The header's first name of this value; `None` for one that no header up to 2.32.3
            /// names.
            pub fn name(self) -> Option<&'static str> {
                Self::VALUES.iter().find(|(_, value, _)| *value == self).map(|(name, ..)| *name)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($name), "({})"), self.0),
                }
            }
        }
    };
}

/// A struct, its fields grouped by the release that added them.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        pub struct $name:ident;
        $( since $since:literal { $( $(#[$fmeta:meta])* $field:ident: $type:ty, )* } )*
    ) => {
        $(#[$meta])*
        #[repr(C)]
        pub struct $name {
            $( $(
                $(#[$fmeta])*
                #[doc = concat!("\n\nNCCL ", $since, " and newer.")]
                pub $field: $type,
            )* )*
        }

        impl $crate::Layout for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::Field] = &[
                $( $( $crate::Field {
                    name: stringify!($field),
                    offset: ::std::mem::offset_of!(Self, $field),
                    size: ::std::mem::size_of::<$type>(),
                    since: $crate::Version::parse($since),
                }, )* )*
            ];
        }
    };
}

/// The end of a field: what `size` says where it is the last.
macro_rules! end_of {
    ($type:ty, $field:ident: $field_type:ty) => {
        ::std::mem::offset_of!($type, $field) + ::std::mem::size_of::<$field_type>()
    };
}

/// The type of a function, under the function's name.
macro_rules! functions {
    ( $( $(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)?; )* ) => {
        $(
            $(#[$meta])*
            pub type $name = unsafe extern "C" fn($($arg: $type),*) $(-> $ret)?;
        )*
    };
}

pub(crate) use {c_enum, end_of, functions, layout};
