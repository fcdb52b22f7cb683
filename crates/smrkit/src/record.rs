//! Records of results, each a table: a column's name, type, meaning and sum are declared once, and JSON, documentation and the Python stub
//! are derived.

use std::collections::BTreeMap;

/// A record as documentation and stubs see it.
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one or a few sentences.
    pub about: &'static str,
    /// Its columns, in the order of JSON.
    pub columns: Vec<Column>,
}

/// A column of a record. Its unit ends its name.
pub struct Column {
    /// Its name: the key in JSON.
    pub name: &'static str,
    /// What it means, in one or a few sentences.
    pub help: &'static str,
    /// Its type in Python.
    pub python: String,
    /// True if JSON leaves it out when it has no value.
    pub may_be_absent: bool,
    /// The record that it holds, or a list of which it holds. A function, because records may contain records of their own kind.
    pub table: fn() -> Option<Table>,
}

/// A type that a column can have.
pub trait ColumnType {
    /// The type in Python.
    fn python() -> String;

    /// The record that a value is, or a list of which it is.
    fn table() -> Option<Table> {
        None
    }
}

/// Declares the Python types of types that are not records.
#[macro_export]
macro_rules! column_types {
    ($($type:ty: $python:literal),+ $(,)?) => {
        $(impl $crate::record::ColumnType for $type {
            fn python() -> String {
                $python.into()
            }
        })+
    };
}

column_types!(u32: "int", u64: "int", u128: "int", f64: "float", bool: "bool", String: "str", (u64, u64): "list[int]");

impl<T: ColumnType> ColumnType for Option<T> {
    fn python() -> String {
        T::python() + " | None"
    }

    fn table() -> Option<Table> {
        T::table()
    }
}

impl<T: ColumnType> ColumnType for Vec<T> {
    fn python() -> String {
        format!("list[{}]", T::python())
    }

    fn table() -> Option<Table> {
        T::table()
    }
}

impl<T> ColumnType for BTreeMap<String, T> {
    fn python() -> String {
        "Record".into()
    }
}

impl Table {
    /// The columns of a field of type `T`: one, or those of a flattened record. [`record!`](crate::record!) calls this with the attributes
    /// for serde.
    pub fn columns<T: ColumnType>(name: &'static str, help: &'static str, serde: &str) -> Vec<Column> {
        if serde.contains("flatten") {
            return T::table().map_or_else(Vec::new, |table| table.columns);
        }
        let may_be_absent = serde.contains("skip_serializing_if");
        vec![Column { name, help: help.trim(), python: T::python(), may_be_absent, table: T::table }]
    }
}

/// Declares a record: a struct with its documentation as data ([`ColumnType::table`]).
///
/// A record with `: Add` after its name can be summed, column by column; `=> function` joins a column in another way.
#[macro_export]
macro_rules! record {
    ($(#[$($meta:tt)*])* pub struct $name:ident $(<$of:ident>)?: Add { $($columns:tt)* }) => {
        $crate::record! { $(#[$($meta)*])* pub struct $name $(<$of>)? { $($columns)* } }
        $crate::record! { @add $name $(<$of>)? { $($columns)* } }
    };
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derived:ident),*)])?
        pub struct $name:ident $(<$of:ident>)? {
            $($(#[doc = $help:literal])+ $(#[serde($($serde:tt)+)])? pub $column:ident: $type:ty $(=> $join:path)?,)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize $($(, $derived)*)?)]
        pub struct $name $(<$of>)? {
            $($(#[doc = $help])+ $(#[serde($($serde)+)])? pub $column: $type,)*
        }

        impl $(<$of: $crate::record::ColumnType>)? $crate::record::ColumnType for $name $(<$of>)? {
            fn python() -> String {
                "Record".into()
            }

            fn table() -> Option<$crate::record::Table> {
                let columns = [$($crate::record::Table::columns::<$type>(
                    stringify!($column), concat!($($help),+), concat!("", $(stringify!($($serde)+))?),
                )),*];
                Some($crate::record::Table {
                    name: stringify!($name),
                    about: concat!($($about),+).trim(),
                    columns: columns.into_iter().flatten().collect(),
                })
            }
        }
    };
    (@add $name:ident $(<$of:ident>)? {
        $($(#[$($meta:tt)*])* pub $column:ident: $type:ty $(=> $join:path)?,)*
    }) => {
        impl $(<$of: std::ops::Add<Output = $of>>)? std::ops::Add for $name $(<$of>)? {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self { $($column: $crate::record!(@join self.$column, other.$column $(, $join)?)),* }
            }
        }
    };
    (@join $a:expr, $b:expr) => { $a + $b };
    (@join $a:expr, $b:expr, $join:path) => { $join($a, $b) };
}
