package e2e

import (
	"fmt"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// events gives the Events about one object with that reason, oldest first.
func (s *scope) events(namespace, kind, name, reason string) ([]eventsv1.Event, error) {
	list, err := client.EventsV1().Events(namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.Kind == kind && event.Regarding.Name == name && (reason == "" || event.Reason == reason) {
			found = append(found, event)
		}
	}
	return found, nil
}

// waitEvent waits for an Event whose note holds those texts.
func (s *scope) waitEvent(namespace, kind, name, reason string, wants ...string) (ret eventsv1.Event) {
	s.Helper()
	s.eventually(fmt.Sprintf("Event %s about %s %s", reason, kind, name), func() error {
		found, err := s.events(namespace, kind, name, "")
		if err != nil {
			return err
		}
		var notes []string
		for _, event := range found {
			if event.Reason == reason && containsAll(event.Note, wants...) {
				ret = event
				return nil
			}
			notes = append(notes, event.Reason+": "+event.Note)
		}
		return fmt.Errorf("there are %q", notes)
	})
	return ret
}

func TestX(t *testing.T) {}
