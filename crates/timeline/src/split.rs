use std::{
    collections::BTreeMap,
    ops::{AddAssign, Index, IndexMut},
};

use oomph_core::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::category::Category;

/// Bytes by category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split([u64; Category::ALL.len()]);

impl Split {
    /// The bytes of all categories.
    pub fn total(&self) -> Bytes {
        Bytes::new(self.0.iter().sum())
    }

    /// The bytes of one category.
    pub fn of(&self, category: Category) -> Bytes {
        Bytes::new(self[category])
    }

    /// Each category with its bytes, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Category, Bytes)> {
        Category::ALL.into_iter().zip(self.0.map(Bytes::new))
    }
}

impl Index<Category> for Split {
    type Output = u64;

    fn index(&self, category: Category) -> &u64 {
        &self.0[category as usize]
    }
}

impl IndexMut<Category> for Split {
    fn index_mut(&mut self, category: Category) -> &mut u64 {
        &mut self.0[category as usize]
    }
}

impl AddAssign<(Category, u64)> for Split {
    fn add_assign(&mut self, (category, bytes): (Category, u64)) {
        self[category] += bytes;
    }
}

/// `{"parameters": 1024, …}`, every category, in bytes.
impl Serialize for Split {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Reads what [`Serialize`] writes; missing categories are 0.
impl<'de> Deserialize<'de> for Split {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut split = Self::default();
        for (category, bytes) in BTreeMap::<Category, u64>::deserialize(deserializer)? {
            split += (category, bytes);
        }
        Ok(split)
    }
}
