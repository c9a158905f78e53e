use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

struct Entry(u8, Place);

impl Chained for Entry {
    type Key = u8;

    fn key(&self) -> u8 {
        self.0
    }

    fn place(&self) -> &Place {
        &self.1
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.1
    }
}

fn hash(key: u8) -> u64 {
    // Two keys have one hash.
    u64::from(key / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn indices(chains: &Chains, slab: &Slab<Entry>, key: u8) -> Vec<u32> {
    chains.of(slab, hash(key), &key).map(|(index, _)| index).collect()
}

#[test]
fn any_number_may_have_one_key() {
    let (mut slab, mut chains) = (Slab::new(5000), Chains::new(5000));
    let handles: Vec<_> = (0..5000)
        .map(|_| {
            let handle = slab.insert(Entry(7, Place::default())).unwrap();
            chains.insert(&mut slab, hash(7), handle.index()).unwrap();
            handle
        })
        .collect();
    assert_eq!((chains.len(), indices(&chains, &slab, 7).len()), (5000, 5000));
    for handle in handles {
        assert!(chains.remove(&mut slab, hash(7), handle.index()));
        assert!(!chains.remove(&mut slab, hash(7), handle.index()), "it is in no chain any more");
        slab.remove(handle);
    }
    assert_eq!((chains.len(), indices(&chains, &slab, 7).len()), (0, 0));
}

proptest! {
    #[test]
    fn each_key_has_its_entries_the_newest_first(steps in prop::collection::vec((any::<bool>(), 0u8..5), 0..200)) {
        let (mut slab, mut chains) = (Slab::new(100), Chains::new(100));
        let mut model: Vec<Vec<_>> = (0..5).map(|_| Vec::new()).collect();
        for (adds, key) in steps {
            let of_key = &mut model[usize::from(key)];
            if adds {
                let Some(handle) = slab.insert(Entry(key, Place::default())) else { continue };
                prop_assert_eq!(chains.insert(&mut slab, hash(key), handle.index()), Ok(()));
                of_key.insert(0, handle);
            } else if !of_key.is_empty() {
                let handle = of_key.remove(of_key.len() / 2);
                prop_assert!(chains.remove(&mut slab, hash(key), handle.index()));
                slab.remove(handle);
            }
            for (key, of_key) in (0..).zip(&model) {
                let expected: Vec<_> = of_key.iter().map(|handle| handle.index()).collect();
                prop_assert_eq!(indices(&chains, &slab, key), expected);
            }
            prop_assert_eq!(chains.len() as usize, model.iter().map(Vec::len).sum::<usize>());
        }
    }
}
