package config

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

// The reasons of the condition Valid.
const (
	reasonInForce  = "InForce"
	reasonInvalid  = "InvalidSettings"
	reasonNothing  = "NothingInForce"
	maxMessage     = 4096
	stayInForce    = "; what status.active shows stays in force"
	nothingInForce = "; there is nothing before it that could stay in force: no pod gets a network until it is mended"
)

// Judge decides about an object: its status, with what is in force. before is what was in force so far, of this object or of one that was
// there before it; nil when nothing was.
func Judge(object *v1alpha1.AtollConfig, before *v1alpha1.AtollConfigSpec) v1alpha1.AtollConfigStatus {
	status := *object.Status.DeepCopy()
	if before == nil {
		before = lastGood(object)
	}
	valid := metav1.Condition{
		Type: v1alpha1.ConfigValid, Status: metav1.ConditionTrue, Reason: reasonInForce, Message: "these settings are in force",
		ObservedGeneration: object.Generation,
	}
	switch err := acceptable(object.Spec, before); {
	case err == nil:
		before = object.Spec.DeepCopy()
	case before == nil:
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, reasonNothing, explain(err, nothingInForce)
	default:
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, reasonInvalid, explain(err, stayInForce)
	}
	status.ObservedGeneration, status.Active = object.Generation, before
	meta.SetStatusCondition(&status.Conditions, valid)
	return status
}

// acceptable reports why a spec cannot be in force after another; nil when it can.
func acceptable(spec v1alpha1.AtollConfigSpec, before *v1alpha1.AtollConfigSpec) error {
	now, err := Parse(spec)
	if err != nil || before == nil {
		return err
	}
	was, err := Parse(*before)
	if err != nil {
		// It was accepted by other rules than these, and holds nobody.
		return nil //nolint:nilerr // What is asked for is fine.
	}
	return now.unchanged(was)
}

// lastGood is what an object says was in force; nil when nothing was.
func lastGood(object *v1alpha1.AtollConfig) *v1alpha1.AtollConfigSpec {
	if object == nil || object.Status.Active == nil {
		return nil
	}
	if _, err := Parse(*object.Status.Active); err != nil {
		return nil
	}
	return object.Status.Active
}

// InForce are the settings that hold for whoever reads the object: those that the controller last accepted. Until it has looked at a new
// object, what the reader had before stays, and who had none goes by the spec if that is valid. Without an object there are
// the defaults. ok is false when nothing is in force.
func InForce(object *v1alpha1.AtollConfig, before *Settings) (s Settings, ok bool) {
	if good := lastGood(object); good != nil {
		s, _ = Parse(*good)
		return s, true
	}
	if before != nil {
		return *before, true
	}
	spec := Defaults()
	if object != nil {
		spec = object.Spec
	}
	s, err := Parse(spec)
	return s, err == nil
}

// explain makes a condition's message of what is wrong.
func explain(err error, then string) string {
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	return message[:min(len(message), maxMessage-len(then))] + then
}
