// The parts of KServe's serving.kserve.io resources that deploy/kserve uses; their declarations are no npm package.
import type { ObjectMeta } from "kubernetes-types/meta/v1";
import type { Container, ResourceRequirements, Volume } from "kubernetes-types/core/v1";

export interface ServingRuntime {
  apiVersion: "serving.kserve.io/v1alpha1";
  kind: "ServingRuntime";
  metadata: ObjectMeta;
  spec: {
    supportedModelFormats: { name: string; version?: string; autoSelect?: boolean; priority?: number }[];
    protocolVersions: ("v1" | "v2" | "grpc-v1" | "grpc-v2")[];
    multiModel?: boolean;
    annotations?: { [name: string]: string };
    labels?: { [name: string]: string };
    containers: Container[];
    volumes?: Volume[];
  };
}

export interface InferenceService {
  apiVersion: "serving.kserve.io/v1beta1";
  kind: "InferenceService";
  metadata: ObjectMeta;
  spec: {
    predictor: {
      minReplicas?: number;
      maxReplicas?: number;
      scaleTarget?: number;
      scaleMetric?: "cpu" | "memory" | "concurrency" | "rps";
      canaryTrafficPercent?: number;
      timeout?: number;
      terminationGracePeriodSeconds?: number;
      automountServiceAccountToken?: boolean;
      model: {
        modelFormat: { name: string; version?: string };
        runtime?: string;
        protocolVersion?: "v1" | "v2" | "grpc-v1" | "grpc-v2";
        storageUri?: string;
        resources?: ResourceRequirements;
        args?: string[];
      };
    };
  };
}
