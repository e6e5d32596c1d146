//! From what Ansible would know to an inventory of ours: memberships, precedence, connections, labels.

use std::collections::{BTreeSet, HashMap};

use bowline_model::host::{Group, Host, Inventory};
use bowline_model::name::GroupName;

use super::gather::{ALL, Gathered, GatheredGroup, GatheredHost, UNGROUPED};
use super::settings::Settings;
use crate::draft::Draft;
use crate::error::ImportError;
use crate::nesting::{self, Tangled};
use crate::place::{At, Place};

pub(crate) fn settle(mut gathered: Gathered) -> Result<Inventory, ImportError> {
    for host in &mut gathered.hosts {
        host.groups.remove(&ALL);
        if host.groups.len() > 1 {
            host.groups.remove(&UNGROUPED);
        }
        if host.groups.is_empty() {
            host.groups.insert(UNGROUPED);
        }
    }
    let precedence = Precedence::of(&gathered)?;
    let keep_all = !gathered.groups[ALL].vars.is_empty();
    let keep_ungrouped = !gathered.groups[UNGROUPED].vars.is_empty();
    let kept = |group: usize| match group {
        ALL => keep_all,
        UNGROUPED => keep_ungrouped,
        _ => true,
    };
    let mut draft = Draft::default();
    let Gathered { groups, hosts, mut copies, .. } = gathered;
    let names: Vec<GroupName> = groups.iter().map(|group| group.name.clone()).collect();

    let mut shared: HashMap<BTreeSet<usize>, Settings> = HashMap::new();
    for GatheredHost { name, groups: own, vars, settings } in hosts {
        let mut all = match shared.get(&own) {
            Some(settings) => settings.clone(),
            None => {
                let settings = precedence.settings(&own, &groups);
                shared.insert(own.clone(), settings.clone());
                settings
            }
        };
        copies.charge(all.weight(), At::default())?;
        all.cover(&settings);
        let (connection, labels) = all.resolve();
        let mut in_groups: BTreeSet<GroupName> = own.iter().filter(|g| kept(**g)).map(|g| names[*g].clone()).collect();
        if in_groups.is_empty() && keep_all {
            in_groups.insert(names[ALL].clone());
        }
        draft.host(Host { name, labels, groups: in_groups, vars, connection }, At::default())?;
    }

    let inside: BTreeSet<usize> = groups.iter().flat_map(|group| &group.children).copied().collect();
    let top: BTreeSet<GroupName> =
        (UNGROUPED..names.len()).filter(|g| kept(*g) && !inside.contains(g)).map(|g| names[g].clone()).collect();
    for (index, GatheredGroup { name, children, vars, .. }) in groups.into_iter().enumerate() {
        if kept(index) {
            let members = children.iter().map(|child| names[*child].clone()).collect();
            draft
                .group(Group { name, groups: if index == ALL { top.clone() } else { members }, vars }, At::default())?;
        }
    }
    draft.finish()
}

/// Which groups speak over which, for the groups that say anything about connections or labels.
struct Precedence {
    /// What a group is ordered by: how deep it lies, its priority, its name.
    rank: Vec<(u32, i64, GroupName)>,
    parents: Vec<Vec<usize>>,
    /// Whether the group has settings.
    speaks: Vec<bool>,
}

impl Precedence {
    fn of(gathered: &Gathered) -> Result<Self, ImportError> {
        let groups = &gathered.groups;
        let names: Vec<&GroupName> = groups.iter().map(|group| &group.name).collect();
        let children: Vec<Vec<usize>> = groups.iter().map(|group| group.children.iter().copied().collect()).collect();
        let depths = nesting::depths(&names, &children).map_err(|error| match error {
            Tangled::Circle(why) => {
                ImportError::Circle { at: Place { line: None, path: Some(why.0.to_string()) }, why }
            }
            Tangled::Woven => ImportError::Woven { at: Place::default() },
        })?;
        let mut parents = vec![Vec::new(); groups.len()];
        for (parent, members) in children.iter().enumerate() {
            for member in members {
                parents[*member].push(parent);
            }
        }
        let rank =
            groups.iter().zip(depths).map(|(group, depth)| (depth, group.priority, group.name.clone())).collect();
        let speaks = groups.iter().map(|group| group.settings != Settings::default()).collect();
        Ok(Self { rank, parents, speaks })
    }

    /// What these groups and all above them say together.
    fn settings(&self, own: &BTreeSet<usize>, groups: &[GatheredGroup]) -> Settings {
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        let mut next: Vec<usize> = own.iter().copied().collect();
        while let Some(group) = next.pop() {
            if seen.insert(group) {
                next.extend(&self.parents[group]);
            }
        }
        seen.remove(&ALL);
        let mut speaking: Vec<usize> = seen.into_iter().filter(|group| self.speaks[*group]).collect();
        speaking.sort_by(|a, b| self.rank[*a].cmp(&self.rank[*b]));
        let mut settings = groups[ALL].settings.clone();
        for group in speaking {
            settings.cover(&groups[group].settings);
        }
        settings
    }
}
