//! Bounds the number of parts of a host value.
//!
//! A bound on bytes is not enough: elements of size zero take none, so encoding `vec![();
//! usize::MAX]` would not end.

use std::fmt;

use serde::ser::{self, Serialize, Serializer};

/// The most parts of a value: numbers, texts, lists and their elements.
pub(crate) const MOST_PARTS: usize = 1 << 26;

/// Whether a value has few enough parts to be sent. True for one whose `Serialize` fails, since the
/// encoding reports that error.
pub(crate) fn is_bounded<V: Serialize + ?Sized>(value: &V) -> bool {
    let mut count = Count { left: MOST_PARTS };
    value.serialize(&mut count).is_ok() || count.left > 0
}

struct Count {
    left: usize,
}

impl Count {
    fn one(&mut self) -> fmt::Result {
        self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
        Ok(())
    }

    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> fmt::Result {
        self.one()?;
        value.serialize(self)
    }
}

macro_rules! leaves {
    ($($name:ident($($argument:ty),*)),+ $(,)?) => { $(
        fn $name(self, $(_: $argument),*) -> fmt::Result {
            self.one()
        }
    )+ };
}

macro_rules! compounds {
    ($($name:ident($($argument:ty),*) -> $compound:ident),+ $(,)?) => { $(
        fn $name(self, $(_: $argument),*) -> Result<Self::$compound, fmt::Error> {
            self.one()?;
            Ok(self)
        }
    )+ };
}

impl Serializer for &mut Count {
    type Ok = ();
    type Error = fmt::Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    leaves! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32),
        serialize_i64(i64), serialize_i128(i128), serialize_u8(u8), serialize_u16(u16),
        serialize_u32(u32), serialize_u64(u64), serialize_u128(u128), serialize_f32(f32),
        serialize_f64(f64), serialize_char(char), serialize_str(&str), serialize_bytes(&[u8]),
        serialize_none(), serialize_unit(), serialize_unit_struct(&'static str),
        serialize_unit_variant(&'static str, u32, &'static str),
    }

    compounds! {
        serialize_seq(Option<usize>) -> SerializeSeq,
        serialize_tuple(usize) -> SerializeTuple,
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct,
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant,
        serialize_map(Option<usize>) -> SerializeMap,
        serialize_struct(&'static str, usize) -> SerializeStruct,
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant,
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> fmt::Result {
        self.part(value)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> fmt::Result {
        self.part(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> fmt::Result {
        self.part(value)
    }

    /// As postcard, so that types choose the same representation.
    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! parts {
    ($($of:ident $($name:ident($($key:ty)?))+),+ $(,)?) => { $(
        impl ser::$of for &mut Count {
            type Ok = ();
            type Error = fmt::Error;

            $(fn $name<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> fmt::Result {
                self.part(value)
            })+

            fn end(self) -> fmt::Result {
                Ok(())
            }
        }
    )+ };
}

parts! {
    SerializeSeq serialize_element(),
    SerializeTuple serialize_element(),
    SerializeTupleStruct serialize_field(),
    SerializeTupleVariant serialize_field(),
    SerializeMap serialize_key() serialize_value(),
    SerializeStruct serialize_field(&'static str),
    SerializeStructVariant serialize_field(&'static str),
}
