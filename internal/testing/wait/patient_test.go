package wait_test

import (
	"reflect"
	"testing"
	"time"

	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/wait"
)

// The service's own limits keep the promise (decisions, section 5), and each dependency gives up before the answer is due.
func TestDefaultLimits(t *testing.T) {
	l := work.DefaultLimits
	if l.Read >= 2*time.Second || l.Act >= 5*time.Second || l.Batch >= 30*time.Second {
		t.Errorf("answers may come too late: %+v", l)
	}
	if l.Replica >= l.Read || l.Statement >= l.Act || l.Mail >= l.Act || l.Count >= l.Act {
		t.Errorf("a part may take as long as the whole: %+v", l)
	}
}

// No limit is forgotten: one of zero would run out at once.
func TestPatientLimits(t *testing.T) {
	usual, patient := reflect.ValueOf(work.DefaultLimits), reflect.ValueOf(wait.Patient)
	for i := range usual.NumField() {
		name, d := usual.Type().Field(i).Name, time.Duration(patient.Field(i).Int())
		if usual.Field(i).Int() <= 0 || d < wait.Limit && name != "MailDelay" || d <= 0 {
			t.Errorf("%s is %s, and in tests %s", name, time.Duration(usual.Field(i).Int()), d)
		}
	}
	if l := wait.Patient; l.Replica >= l.Read || l.Statement >= l.Act || l.Mail >= l.Act || l.Limiter >= l.Read {
		t.Errorf("a part may take as long as the whole: %+v", l)
	}
}
