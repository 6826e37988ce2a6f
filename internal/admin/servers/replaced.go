package servers

import (
	"regexp"
	"slices"

	"github.com/google/uuid"
)

// podName is the name of a pod of a Deployment. Kubernetes replaces a pod by one with another end of the name.
var podName = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// placeOf returns what two servers have in common of which one replaces the other: the host, or the Deployment.
func placeOf(host string) string {
	if parts := podName.FindStringSubmatch(host); parts != nil {
		return parts[1]
	}
	return host
}

// Down returns the lost servers that no other one has replaced. A server replaces one that was lost in its place before it started.
func Down(list []Server) (down []Server) {
	byStart := slices.SortedFunc(slices.Values(list), func(a, b Server) int { return a.StartedAt.Compare(b.StartedAt) })
	used := map[uuid.UUID]bool{}
	bySight := slices.SortedFunc(slices.Values(list), func(a, b Server) int { return a.SeenAt.Compare(b.SeenAt) })
	for _, lost := range bySight {
		if !lost.Lost() {
			continue
		}
		i := slices.IndexFunc(byStart, func(s Server) bool {
			return !s.Lost() && !used[s.ID] && placeOf(s.Host) == placeOf(lost.Host) && s.StartedAt.After(lost.SeenAt)
		})
		if i < 0 {
			down = append(down, lost)
		} else {
			used[byStart[i].ID] = true
		}
	}
	return down
}
