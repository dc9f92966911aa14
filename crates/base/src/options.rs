//! Structs of options, to which later versions may add fields.

/// Declares one: `#[non_exhaustive]`, with `new` for its `Default` and a method for each field that sets it. With `no new`
/// behind it, one that has a `new` of its own, as not every field has a default. Who sees a field may set it.
#[macro_export]
macro_rules! options {
    ($(#[$meta:meta])* pub struct $name:ident $(<$life:lifetime>)? { $($fields:tt)* }) => {
        $crate::options! { $(#[$meta])* pub struct $name $(<$life>)? { $($fields)* } no new }

        impl $(<$life>)? $name $(<$life>)? {
            /// The defaults.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }
        }
    };
    ($(#[$meta:meta])* pub struct $name:ident $(<$life:lifetime>)? {
        $($(#[$doc:meta])* $vis:vis $field:ident: $type:ty,)*
    } no new) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub struct $name $(<$life>)? {
            $($(#[$doc])* $vis $field: $type,)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            $($(#[$doc])*
            #[must_use]
            $vis fn $field(self, $field: $type) -> Self {
                Self { $field, ..self }
            })*
        }
    };
}
